"""Statistical tests: means with standard errors, sequential looks at more draws, and importance
weights that are not dominated by a few.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from flowref.model import Array, Residual, Undecidable
from flowref.model.budget import BudgetExceeded

# Standard errors that a mean may be off by unless stated otherwise, and the false-alarm rate of
# each look.
ERRORS, LEVEL = 5.0, 1e-3
# The distance of the seeds of two looks, and the shares of the draws used if all take too long.
APART, SHARES = 1000, (1.0, 2.0**-2, 2.0**-4)
# The largest share of one weight, and the smallest effective sample size of a mean of weights. From
# this ratio of standard deviation to mean on (an effective number of a tenth), missing mass may be
# undrawn weights.
HEAVIEST, EFFECTIVE, UNEVEN = 0.02, 200.0, 3.0
# The tail: share of the weights, and multiple of the root of their number (Vehtari et al.,
# arXiv:1507.02646); the Pareto shape from which the variance is infinite; and the quarters of the
# tail that scale the trial values (Zhang and Stephens 2009, section 4).
TAIL, ROOTS, INFINITE, PRIOR, TRIED = 0.2, 3.0, 0.5, 3, 30


@dataclass(frozen=True)
class Look:
    """The index of a look at draws, from 0 on, their number and seed."""

    index: int
    count: int
    seed: int


class Tested(Protocol):
    """The result of a statistic: a violation if its ``excess`` is above 1."""

    @property
    def excess(self) -> Array | float:
        """The deviation relative to the allowed one, a number or ``(rows,)``."""


T = TypeVar("T", bound=Tested | None)


def two_stage(
    statistic: Callable[[Look], T],
    counts: Iterable[int],
    seed: int,
    conspicuous: float = 1.0,
    apart: int = APART,
) -> T:
    """The statistic at the last look at draws, which alone decides. Each look has ``counts`` fresh
    draws; the next one is made if the excess is above ``conspicuous``. ``apart``: distance of the
    seeds of two looks. A statistic that returns None ends the sequence. Expensive draws are
    reduced in number at every look.
    """
    found: Any = None
    shares = iter(SHARES)
    share = next(shares)
    for index, count in enumerate(counts):
        while True:
            try:
                found = statistic(Look(index, int(count * share), seed + apart * index))
                break
            except BudgetExceeded:
                if index or (share := next(shares, 0)) == 0:
                    raise
        if found is None or (np.asarray(found.excess) <= conspicuous).all():
            break
    return found  # type: ignore[no-any-return]  # that of the statistic


@dataclass(frozen=True)
class Finding:
    """The result of a statistic: its ``excess``, a number or ``(rows,)``; named numbers; the
    sentence for a violation; the smallest detectable effect; and a reason to doubt a violation.
    """

    excess: Array | float
    observed: Mapping[str, Array | float] = field(default_factory=dict)
    note: str = ""
    method: str = ""
    doubt: str = ""

    @property
    def violates(self) -> bool:
        """Whether the excess is above 1."""
        return not (np.asarray(self.excess) <= 1).all()

    def residual(self, rows: int = 1, allowed: float = 1.0, **details: Any) -> Residual:
        """The residual of a law on a batch of ``rows``; ``allowed``: of the excess; ``details``:
        other fields of it. Raises `Undecidable` for a violation with a doubt.
        """
        if self.doubt and self.violates:
            raise Undecidable(self.doubt)
        value = np.full(np.shape(self.excess) or rows, self.excess, dtype=np.float64)
        return Residual(
            value,
            allowed=allowed,
            observed={
                name: np.broadcast_to(one, value.shape) for name, one in self.observed.items()
            },
            note="" if (value <= allowed).all() else self.note,
            method=self.method,
            **details,
        )


class Mean(NamedTuple):
    """A mean, its standard error, and whether it is a mean of weights so uneven that rarely drawn
    ones may be missing.
    """

    mean: float
    error: float
    uneven: bool = False

    @classmethod
    def of(cls, values: Array, ddof: int = 0) -> Mean:
        """The mean of independent values ``(n,)``; ``ddof``: 1 for few values."""
        mean, deviation = float(values.mean()), float(values.std(ddof=ddof))
        return cls(mean, deviation / math.sqrt(values.size), deviation > UNEVEN * mean)

    def room(self, share: float, errors: float = ERRORS) -> float:
        """The allowed error: ``errors`` standard errors plus ``share``."""
        return max(errors * self.error, share)


def center_and_spread(x: Array) -> tuple[Array, Array]:
    """The median of each entry of points ``(n, ...)``, and the standard deviation of a normal
    distribution with the same interquartile range.
    """
    low, high = np.quantile(x, (0.25, 0.75), axis=0)
    return np.median(x, axis=0), np.asarray((high - low) / 1.349)


def critical(tests: int, level: float = LEVEL) -> float:
    """The two-sided normal quantile at a level shared among ``tests`` (Bonferroni)."""
    return NormalDist().inv_cdf(1 - level / (2 * tests))


class Guard(NamedTuple):
    """The largest share of one weight, and the smallest effective sample size."""

    heaviest: float = HEAVIEST
    effective: float = 0.0

    def passes(self, weights: Array) -> bool:
        """Whether the weights ``(n,)`` are not dominated by a few."""
        total = weights.sum()
        return bool(
            weights.max() <= self.heaviest * total
            and total**2 >= self.effective * (weights**2).sum()
        )


def guarded(log_weights: Array) -> Mean:
    """The mean of the weights $e^{w}$, ``log_weights`` $w$ of shape ``(n,)``. Raises `Undecidable`
    if a few dominate.
    """
    log_weights = np.asarray(log_weights, dtype=np.float64)
    if np.isnan(log_weights).any() or (log_weights == np.inf).any():
        raise Undecidable("a contribution is not a number")
    top = float(log_weights.max())
    if top == -np.inf:
        raise Undecidable("no drawn point has a weight")
    weights = np.exp(log_weights - top)
    if not Guard(HEAVIEST, EFFECTIVE).passes(weights):
        raise Undecidable("a few points hold most of the weight")
    scale = math.exp(min(top, 600.0))
    mean, error, uneven = Mean.of(weights)
    return Mean(mean * scale, error * scale, uneven or infinite_variance(weights))


def at_least(log_weights: Array, most: float) -> Mean | None:
    """A lower bound of the mean of weights: weights are cut at ``most``. None if a few points
    dominate even then.

    Cut weights are bounded, so the error of their mean is known however heavy the tail is.
    """
    with np.errstate(over="ignore"):
        weights = np.minimum(np.exp(np.asarray(log_weights, dtype=np.float64)), most)
    return Mean.of(weights) if Guard().passes(weights) else None


def infinite_variance(weights: Array) -> bool:
    """Whether the tail of the weights ``(n,)`` has infinite variance: their mean is then mostly
    too small, and so is its standard error.
    """
    finite = weights[np.isfinite(weights)]
    count = int(min(TAIL * len(finite), ROOTS * np.sqrt(len(finite))))
    if count < TRIED:
        return False
    ordered = np.sort(finite)
    over = ordered[-count:] - ordered[-count - 1]
    over = over[over > 0]
    return len(over) >= TRIED and pareto_shape(over) > INFINITE


def pareto_shape(values: Array) -> float:
    """The shape k of a generalized Pareto distribution fitted to positive values ``(n,)``; its
    variance is infinite for k > 1/2.

    Source: Zhang and Stephens 2009, A new and efficient estimation method for the generalized
    Pareto distribution, Technometrics 51.
    """
    x = np.sort(values)
    tries = TRIED + int(np.sqrt(len(x)))
    quarter = x[int(len(x) / 4 + 0.5) - 1]
    theta = 1 - np.sqrt(tries / (np.arange(1, tries + 1) - 0.5))
    theta = theta / (PRIOR * quarter) + 1 / x[-1]
    shapes = np.log1p(-theta[:, None] * x).mean(1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        fit = len(x) * (np.log(-theta / shapes) - shapes - 1)
        chances = 1 / np.exp(fit - fit[:, None]).sum(1)
    best = float((theta * chances).sum() / chances.sum())
    return float(np.log1p(-best * x).mean())
