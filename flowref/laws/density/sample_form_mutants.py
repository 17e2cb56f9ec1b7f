"""Samples that are no numbers now and then, put into healthy subjects."""

from __future__ import annotations

from functools import partial

import numpy as np

from flowref.laws.common.defects import value_changed
from flowref.model import Array, Subject, mutant


def _spoilt(share: float, value: float, x: Array) -> Array:
    """Some rows, which their own digits choose, hold what is no number."""
    rows = np.asarray(x, dtype=np.float64).reshape(len(x), -1)
    chosen = np.modf(1e4 * np.abs(rows[:, 0]))[0] < share
    return np.where(chosen.reshape(-1, *[1] * (np.ndim(x) - 1)), value, x)


@mutant("sampling/finite", host="reference:Flow[VectorRealNVP]", sizes=(0.004, 0.05))
def sometimes_nan(subject: Subject, size: float = 0.004) -> Subject:
    """A few draws in a thousand are 0/0."""
    return value_changed(subject, "sample", partial(_spoilt, size, np.nan))


@mutant("sampling/finite", host="torch:LogNormal", sizes=(0.004, 0.05))
def sometimes_infinite(subject: Subject, size: float = 0.004) -> Subject:
    """A few draws in a thousand are the logarithm of zero."""
    return value_changed(subject, "sample", partial(_spoilt, size, -np.inf))
