"""Defects of what a distribution says of itself besides its density."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from flowref.laws.density.moments import MOMENTS, NOT_OF_COPIES
from flowref.model import Array, Subject, mutant
from flowref_zoo.mutants.combinators import wrapped

NORMAL, SKEWED = "torch:distributions.Normal", "torch:distributions.Weibull"


def _told(stated: Callable[[], Array], which: int, power: float, amount: float) -> Array:
    told = np.array(stated(), dtype=np.float64)
    told[which] = told[which] ** power + amount
    return told


@mutant("density/stated[moments]", host=SKEWED, sizes=(1e-4, 0.1))
def mean_off(subject: Subject, size: float = 1e-3) -> Subject:
    """The mean is off by a little."""
    return wrapped(subject, "stated", _told, 0, 1.0, size)


@mutant("density/stated[moments]", host=SKEWED)
def second_moment(subject: Subject) -> Subject:
    """The variance is the second moment: the square of the mean is not subtracted."""
    return wrapped(subject, "stated", _not_centered)


def _not_centered(stated: Callable[[], Array]) -> Array:
    told = np.array(stated(), dtype=np.float64)
    told[1] += told[0] ** 2
    return told


def _copies(stated: Callable[[], Array]) -> Array:
    told = np.array(stated(), dtype=np.float64)
    told[-len(MOMENTS)] = NOT_OF_COPIES
    return told


@mutant("density/stated[moments]", host=NORMAL)
def mean_of_all_copies(subject: Subject) -> Subject:
    """Copies in a batch tell one mean for all of them."""
    return wrapped(subject, "stated", _copies)


@mutant("density/stated[moments]", host=NORMAL)
def deviation_told(subject: Subject) -> Subject:
    """The variance is the standard deviation."""
    return wrapped(subject, "stated", _told, 1, 0.5, 0.0)


@mutant("density/stated[moments]", host=NORMAL)
def entropy_of_standard(subject: Subject) -> Subject:
    """The entropy forgets the scale."""
    return wrapped(subject, "stated", _told, 2, 1.0, -math.log(1.2))


def _shifted(cdf: Callable[..., Array], size: float, x: Array, *rest: Any) -> Array:
    return cdf(x * (1 + size), *rest)


@mutant("density/distribution-function", host=NORMAL, sizes=(1e-5, 0.1))
def of_another_scale(subject: Subject, size: float = 1e-3) -> Subject:
    """The distribution function has another scale."""
    return wrapped(subject, "cdf", _shifted, size)


def _lower(cdf: Callable[..., Array], x: Array, *rest: Any) -> Array:
    reached = cdf(x, *rest)
    return np.where(reached > 0.9, 0.9 + 0.99 * (reached - 0.9), reached)


@mutant("density/distribution-function", host="torch:distributions.Laplace")
def upper_tail(subject: Subject) -> Subject:
    """The upper tail is a little too light in the distribution function."""
    return wrapped(subject, "cdf", _lower)


def _past(cdf: Callable[..., Array], x: Array, *rest: Any) -> Array:
    return np.where(x < 0, -np.tanh(-x), cdf(np.abs(x), *rest))


@mutant("density/support[distribution-function]", host="torch:distributions.HalfNormal")
def negative_below(subject: Subject) -> Subject:
    """The formula goes on below the support, where it is negative."""
    return wrapped(subject, "cdf", _past)
