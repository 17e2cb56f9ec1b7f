"""Log-dets and log-densities that overflow far out, and ends of a domain that belong to another bin."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from flowref.model import Array, Mapped, Subject, mutant
from flowref_zoo.mutants.combinators import ladj_changed, wrapped


def _overflown(size: float, ladj: Array, x: Array) -> Array:
    far = np.abs(x).reshape(len(x), -1).max(1) > size
    return np.where(far.reshape(-1, *[1] * (ladj.ndim - 1)), -np.inf, ladj)


@mutant("map/finite-far-out[log-det]", host="nflows:AffineCouplingTransform", sizes=(36.0, 700.0))
def log_det_overflows(subject: Subject, size: float = 36.0) -> Subject:
    """Beyond a point the log-det is the logarithm of a rounded zero."""
    return ladj_changed(subject, "forward", partial(_overflown, size))


def _underflown(log_prob: Callable[..., Any], size: float, *inputs: Any) -> Array:
    density = np.asarray(log_prob(*inputs), dtype=np.float64)
    return np.where(density < -size, -np.inf, density)


@mutant("map/finite-far-out[log-prob]", host="zuko:NSF?features=2", sizes=(745.0, 2000.0))
def density_underflows(subject: Subject, size: float = 745.0) -> Subject:
    """The log-density is the logarithm of a number that underflows."""
    return wrapped(subject, "log_prob", _underflown, size)


def _next_bin(forward: Callable[..., Mapped], size: float, x: Array, *rest: Any) -> Mapped:
    out = forward(x, *rest)
    last = (x == 1.0).reshape(len(x), -1).any(1)
    value = np.asarray(out.value)
    return Mapped(value - size * last.reshape(-1, *[1] * (value.ndim - 1)), out.ladj)


@mutant("map/domain[ends]", host="nflows:PiecewiseRationalQuadraticCDF", sizes=(0.01, 0.9))
def end_in_another_bin(subject: Subject, size: float = 0.5) -> Subject:
    """At the upper end, and there alone, the value is that of another bin."""
    return wrapped(subject, "forward", _next_bin, size)
