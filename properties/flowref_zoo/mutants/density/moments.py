"""Defects of what a distribution of vectors says of itself."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from flowref.laws.density.moments import MISSHAPEN, MOMENTS, NO_NUMBER
from flowref.model import Array, Subject, mutant
from flowref_zoo.mutants.combinators import wrapped

VECTORS = "flowref_zoo.specimens.told_distributions:factors"


def _split(flat: Array) -> list[Array]:
    """Mean, variance, entropy, deviation, mode and covariance."""
    size = next(n for n in range(1, 100) if flat.size - 4 * n - 1 - n * n in (0, len(MOMENTS)))
    return np.split(flat, np.cumsum([size, size, 1, size, size, size * size]))


def _moved(stated: Callable[[], Array], which: int, factor: float, amount: float) -> Array:
    told = _split(np.array(stated(), dtype=np.float64))
    told[which] = factor * told[which] + amount
    return np.concatenate(told)


def _said(stated: Callable[[], Array], which: int, flag: float) -> Array:
    told = _split(np.array(stated(), dtype=np.float64))
    told[which] = np.full_like(told[which], np.nan)
    told[-1][which] = flag
    return np.concatenate(told)


@mutant("density/stated[sample-moments]", host=VECTORS)
def mean_of_another_shape(subject: Subject, size: float = 1.0) -> Subject:
    """The mean has a number for each part of a mixture."""
    return wrapped(subject, "stated", _said, 0, MISSHAPEN)


@mutant("density/stated[sample-moments]", host=VECTORS)
def variance_no_number(subject: Subject, size: float = 1.0) -> Subject:
    """The variance is nan where it is finite."""
    return wrapped(subject, "stated", _said, 1, NO_NUMBER)


@mutant("density/stated[sample-moments]", host=VECTORS, sizes=(0.1, 0.5))
def mean_moved(subject: Subject, size: float = 0.2) -> Subject:
    """The mean is off by a part of the deviation."""
    return wrapped(subject, "stated", _moved, 0, 1.0, size)


@mutant("density/stated[sample-moments]", host=VECTORS, sizes=(0.1, 0.5))
def variance_grows(subject: Subject, size: float = 0.2) -> Subject:
    """The variance is too large by a share of itself."""
    return wrapped(subject, "stated", _moved, 1, 1 + size, 0.0)


@mutant("density/stated[sample-moments]", host=VECTORS)
def entropy_of_exponent(subject: Subject) -> Subject:
    """The entropy lacks half of a nat for each dimension."""
    return wrapped(subject, "stated", _moved, 2, 1.0, -0.5 * math.prod(subject.density_shape))


@mutant("density/stated[mode]", host=VECTORS, sizes=(0.02, 1.0))
def mode_moved(subject: Subject, size: float = 0.2) -> Subject:
    """The mode is off."""
    return wrapped(subject, "stated", _moved, 4, 1.0, size)


@mutant("density/stated[deviation]", host=VECTORS, sizes=(1e-6, 0.5))
def deviation_grows(subject: Subject, size: float = 1e-3) -> Subject:
    """The deviation is too large by a share of itself."""
    return wrapped(subject, "stated", _moved, 3, 1 + size, 0.0)
