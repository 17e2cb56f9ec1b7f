"""Defects of maps and densities that declare a group."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from flowref.model import Array, Subject, mutant
from flowref_zoo.mutants.combinators import value_changed, wrapped

HOST = "reference:StandardNormalFlow"


def _uneven(value: Array, size: float) -> Array:
    out = np.array(value, dtype=np.float64)
    out[:, 0] *= 1 + size
    return out


@mutant("map/equivariant", host=HOST, sizes=(1e-9, 1e-2))
def one_entry_scaled(subject: Subject, size: float = 1e-2) -> Subject:
    """One coordinate is scaled, as by a feature of an absolute direction."""
    return value_changed(subject, "forward", partial(_uneven, size=size))


@mutant("density/invariant", host=HOST, sizes=(1e-9, 1e-2))
def leans_to_one_side(subject: Subject, size: float = 1e-2) -> Subject:
    """The log-density grows along one coordinate."""
    return wrapped(subject, "log_prob", _leaning, size)


def _leaning(
    log_prob: Callable[..., Array], size: float, x: Array, context: Array | None = None
) -> Array:
    return np.asarray(log_prob(x, context)) + size * np.asarray(x)[:, 0]
