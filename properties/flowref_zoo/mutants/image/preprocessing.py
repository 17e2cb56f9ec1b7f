"""Defects of preprocessing, put into healthy subjects."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from flowref.model import Array, Manner, Mapped, Preprocessing, Subject, mutant
from flowref_zoo.mutants.combinators import (
    Remade,
    added,
    declared,
    ladj_added,
    mannered,
    shifted,
    wrapped,
)

LOGIT, LIBRARY, FLOW = "reference:Logit", "normflows:transforms.Logit", "reference:Flow[logit]"
LEVELS = "reference:Dequantize"


def volume(subject: Subject) -> float:
    """The log of the slope of the logit's argument, summed over the entries of a data point."""
    return math.prod(subject.density_shape) * math.log(declared(subject.preprocessing).slope)


@mutant("density/change-of-variables", host=FLOW)
def scale_missing(subject: Subject) -> Subject:
    """The log-density lacks the scale of the logit's argument."""
    return added(subject, "log_prob", -volume(subject))


@mutant("density/change-of-variables", host=FLOW, sizes=(1e-7, 1e-2))
def density_off(subject: Subject, size: float = 1e-2) -> Subject:
    """The log-density is off by a constant."""
    return added(subject, "log_prob", size)


@mutant("density/units[scale]", host="torch:LogNormal")
def levels_off_by_one(subject: Subject) -> Subject:
    """The log-det of a scaling by 255 is that of 256."""
    return added(subject, "rescaled", math.prod(subject.density_shape) * math.log(256 / 255))


def _unscaled(
    log_prob: Callable[..., Array], x: Array, factor: float, context: Array | None = None
) -> Array:
    return log_prob(x / factor, context)


@mutant("density/units[scale]", host="nflows:Flow")
def scaling_without_volume(subject: Subject) -> Subject:
    """The scaling of the data has no log-det."""
    return subject.with_call("rescaled", partial(_unscaled, subject.calls["log_prob"]))


@mutant("map/log-det", host=LOGIT)
def slope_missing(subject: Subject) -> Subject:
    """The log-det is that of the bare logit."""
    return ladj_added(subject, "forward", -volume(subject))


@mutant("map/log-det[antisymmetry]", host=LIBRARY, sizes=(1e-10, 1e-3))
def log_det_off(subject: Subject, size: float = 1e-3) -> Subject:
    """The log-det of the logit is off by a constant."""
    return ladj_added(subject, subject.normalizing, size)


def _asymmetric(logit: Preprocessing, x: Array, context: Array | None = None) -> Mapped:
    with np.errstate(all="ignore"):
        p = logit.alpha + (1 - logit.alpha) * x / logit.bound
        h = np.log(p) - np.log1p(-p)
        ladj = (
            (math.log((1 - logit.alpha) / logit.bound) - np.log(p) - np.log1p(-p))
            .reshape(len(x), -1)
            .sum(1)
        )
    return Mapped(h, ladj)


@mutant("map/finite[boundary]", host=LOGIT)
def asymmetric_alpha(subject: Subject) -> Subject:
    """Only the lower end of the range is kept finite: the argument of the logit is alpha + (1 -
    alpha) x / b.
    """
    return subject.with_call("forward", partial(_asymmetric, declared(subject.preprocessing)))


def _infinite_slopes(
    vjp: Callable[..., Array], bound: float, which: str, x: Array, *others: Any
) -> Array:
    slopes = np.asarray(vjp(which, x, *others)).copy()
    slopes[x.reshape(slopes.shape) == bound] = np.inf
    return slopes


@mutant("map/finite[boundary]", host=LIBRARY)
def gradient_at_the_end(subject: Subject) -> Subject:
    """The gradient at the upper end of the range is infinite."""
    return wrapped(subject, "vjp", _infinite_slopes, declared(subject.preprocessing).bound)


def _changed(
    which: str,
    change: Callable[[Mapped], Mapped],
    call: Remade,
    name: str,
    inputs: tuple[Any, ...],
    manner: Manner,
) -> Mapped:
    out = call(inputs, manner)
    return change(out) if name == which else out


def in_any_manner(subject: Subject, which: str, change: Callable[[Mapped], Mapped]) -> Subject:
    """The subject with the outcome of one call changed, however it is made."""
    return mannered(subject, partial(_changed, which, change))


def _in_half(out: Mapped) -> Mapped:
    return out._replace(value=np.asarray(out.value).astype(np.float16).astype(np.float64))


@mutant("map/inverse[logit]", host=LOGIT, sizes=(1e-9, 1e-2))
def alpha_not_taken_off(subject: Subject, size: float = 1e-2) -> Subject:
    """What the sigmoid gives is shifted."""
    return in_any_manner(subject, "inverse", lambda out: shifted(out, size))


@mutant("map/inverse[logit]", host=LIBRARY)
def half_precision(subject: Subject) -> Subject:
    """The sigmoid is taken in half precision."""
    return in_any_manner(subject, "forward", _in_half)


def _rounded_sum(levels: Array, noise: Array, dtype: str | None = None) -> Array:
    kind = np.dtype(dtype or "float64").type
    return np.asarray(levels.astype(kind) + noise.astype(kind))


def _centered(levels: Array, noise: Array, dtype: str | None = None) -> Array:
    kind = np.dtype(dtype or "float64").type
    return np.asarray(levels.astype(kind) + noise.astype(kind) - kind(0.5))


def _midpoint(levels: Array, noise: Array, dtype: str | None = None) -> Array:
    return np.asarray((levels + 0.5).astype(np.dtype(dtype or "float64")))


@mutant("dequantize/fills-the-level[floor]", host=LEVELS)
def sum_rounds_up(subject: Subject) -> Subject:
    """Level and noise are added without care, so that the sum may round to the next level."""
    return subject.with_call("dequantize", _rounded_sum)


@mutant("dequantize/fills-the-level[floor]", host="reference:Dequantize[bins]")
def noise_around_level(subject: Subject) -> Subject:
    """Noise is centered at the level."""
    return subject.with_call("dequantize", _centered)


@mutant("dequantize/fills-the-level[bound]", host=LEVELS)
def midpoint(subject: Subject) -> Subject:
    """Levels are moved to the middle of their interval, without noise."""
    return subject.with_call("dequantize", _midpoint)
