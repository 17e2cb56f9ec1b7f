"""Samples that are no numbers now and then, put into healthy subjects."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from flowref.model import Array, Subject, mutant
from flowref_zoo.mutants.combinators import value_changed, wrapped


def _spoilt(share: float, value: float, x: Array) -> Array:
    """Some rows, which their own digits choose, hold what is no number."""
    rows = np.asarray(x, dtype=np.float64).reshape(len(x), -1)
    chosen = np.modf(1e4 * np.abs(rows[:, 0]))[0] < share
    return np.where(chosen.reshape(-1, *[1] * (np.ndim(x) - 1)), value, x)


@mutant("map/finite[samples]", host="reference:Flow[VectorRealNVP]", sizes=(0.004, 0.05))
def sometimes_nan(subject: Subject, size: float = 0.004) -> Subject:
    """A few draws in a thousand are 0/0."""
    return value_changed(subject, "sample", partial(_spoilt, size, np.nan))


@mutant("map/finite[samples]", host="torch:LogNormal", sizes=(0.004, 0.05))
def sometimes_infinite(subject: Subject, size: float = 0.004) -> Subject:
    """A few draws in a thousand are the logarithm of zero."""
    return value_changed(subject, "sample", partial(_spoilt, size, -np.inf))


def _untold(log_prob: Callable[..., Array], share: float, x: Array, *rest: Any) -> Array:
    told = np.array(log_prob(x, *rest), dtype=np.float64)
    first = np.abs(np.asarray(x, dtype=np.float64).reshape(len(x), -1)[:, 0])
    return np.where((np.modf(1e4 * first)[0] < share).reshape(told.shape), np.nan, told)


@mutant("map/finite[samples]", host="torch:LogNormal", sizes=(0.004, 0.05))
def sometimes_without_density(subject: Subject, size: float = 0.004) -> Subject:
    """A few samples lie on the boundary, where the formula is infinity less infinity."""
    return wrapped(subject, "log_prob", _untold, size)
