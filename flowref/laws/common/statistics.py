"""Statistical tests: means and their standard errors, looks at ever more draws, and weights that no few of
them decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from flowref.model import Array, Residual, Undecidable
from flowref.model.budget import Beyond

# Standard errors that a mean may be off by, where nothing else is said, and the false-alarm rate of each look.
ERRORS, LEVEL = 5.0, 1e-3
# How far seeds of two looks are apart; which shares of the draws are made where more of them take too long.
APART, SHARES = 1000, (1.0, 2.0**-2, 2.0**-4)
# What one weight may hold of their sum, and the least effective sample size of a mean of weights; the
# standard deviation of weights beside their mean from which on what is missing may be what was not drawn:
# their effective number is then a tenth of them.
HEAVIEST, EFFECTIVE, UNEVEN = 0.02, 200.0, 3.0
# The share of the weights, and how many times the root of their number, that are the tail (Vehtari et al.,
# arXiv:1507.02646); the shape of a Pareto tail from which on the variance is infinite; and how many quarters
# of the tail's values scale what is tried (Zhang and Stephens 2009, section 4).
TAIL, ROOTS, INFINITE, PRIOR, TRIED = 0.2, 3.0, 0.5, 3, 30


@dataclass(frozen=True)
class Look:
    """Which look at draws it is, from 0 on; how many they are, and their seed."""

    index: int
    count: int
    seed: int


class Tested(Protocol):
    """What a statistic tells: how far it is off beside what is allowed; beyond 1 it accuses."""

    @property
    def excess(self) -> Array | float:
        """A number, or one for each row."""


T = TypeVar("T", bound=Tested | None)


def two_stage(
    statistic: Callable[[Look], T],
    counts: Iterable[int],
    seed: int,
    conspicuous: float = 1.0,
    apart: int = APART,
) -> T:
    """What a statistic tells at the last look at draws, which alone accuses: so many at each, fresh ones
    every time, as long as its excess is beyond what is ``conspicuous``. ``apart``: how far the seeds of two
    looks are apart. A statistic that gives None ends it. Where so many draws take too long, there are fewer at
    every look.
    """
    found: Any = None
    shares = iter(SHARES)
    share = next(shares)
    for index, count in enumerate(counts):
        while True:
            try:
                found = statistic(Look(index, int(count * share), seed + apart * index))
                break
            except Beyond:
                if index or (share := next(shares, 0)) == 0:
                    raise
        if found is None or (np.asarray(found.excess) <= conspicuous).all():
            break
    return found  # type: ignore[no-any-return]  # that of the statistic


@dataclass(frozen=True)
class Finding:
    """What a statistic tells: its excess, a number or one for each row; named numbers beside it; and in
    words what is wrong where it accuses, what would have been seen, and why it may be wrong to accuse.
    """

    excess: Array | float
    observed: Mapping[str, Array | float] = field(default_factory=dict)
    note: str = ""
    road: str = ""
    doubt: str = ""

    @property
    def accuses(self) -> bool:
        """Whether it is off by more than what is allowed."""
        return not (np.asarray(self.excess) <= 1).all()

    def residual(self, rows: int = 1, allowed: float = 1.0, **details: Any) -> Residual:
        """The residual of a law on a batch of so many rows, which allows so much of an excess; ``details``:
        other fields of it. Raises `Undecidable` where it accuses, and there is a doubt.
        """
        if self.doubt and self.accuses:
            raise Undecidable(self.doubt)
        value = np.full(np.shape(self.excess) or rows, self.excess, dtype=np.float64)
        return Residual(
            value,
            allowed=allowed,
            observed={
                name: np.broadcast_to(one, value.shape) for name, one in self.observed.items()
            },
            note="" if (value <= allowed).all() else self.note,
            road=self.road,
            **details,
        )


class Mean(NamedTuple):
    """A mean, its standard error, and whether weights of which it is one are spread so far that those which
    are rarely drawn may be missing.
    """

    mean: float
    error: float
    uneven: bool = False

    @classmethod
    def of(cls, values: Array, ddof: int = 0) -> Mean:
        """That of independent values; ``ddof``: 1 where they are few."""
        mean, deviation = float(values.mean()), float(values.std(ddof=ddof))
        return cls(mean, deviation / math.sqrt(values.size), deviation > UNEVEN * mean)

    def room(self, share: float, errors: float = ERRORS) -> float:
        """What it may be off by: so many standard errors, and a share whatever these are."""
        return max(errors * self.error, share)


def center_and_spread(x: Array) -> tuple[Array, Array]:
    """The median of each entry of points ``(n, ...)``, and the deviation of a normal distribution that is as
    wide in its middle.
    """
    low, high = np.quantile(x, (0.25, 0.75), axis=0)
    return np.median(x, axis=0), np.asarray((high - low) / 1.349)


def critical(tests: int, level: float = LEVEL) -> float:
    """The two-sided normal quantile at a level that is shared among the tests made."""
    return NormalDist().inv_cdf(1 - level / (2 * tests))


class Guard(NamedTuple):
    """What one weight may hold of their sum, and the least effective sample size."""

    heaviest: float = HEAVIEST
    effective: float = 0.0

    def passes(self, weights: Array) -> bool:
        """Whether no few of the weights decide."""
        total = weights.sum()
        return bool(
            weights.max() <= self.heaviest * total
            and total**2 >= self.effective * (weights**2).sum()
        )


def guarded(log_weights: Array) -> Mean:
    """The mean of weights; `Undecidable` where a few of them decide."""
    log_weights = np.asarray(log_weights, dtype=np.float64)
    if np.isnan(log_weights).any() or (log_weights == np.inf).any():
        raise Undecidable("a contribution is no number")
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
    """A mean that is no larger than that of the weights: of weights above ``most`` only so much counts.
    None where these few points decide even then.

    However heavy the tail of weights is, those that are cut are bounded, so that what they are too
    much by is known where their own mean is not.
    """
    with np.errstate(over="ignore"):
        weights = np.minimum(np.exp(np.asarray(log_weights, dtype=np.float64)), most)
    return Mean.of(weights) if Guard().passes(weights) else None


def infinite_variance(weights: Array) -> bool:
    """Whether the largest weights lie as those do whose variance is infinite: then their mean is mostly
    too small, and their standard error as well.
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
    """The shape k of a generalized Pareto distribution that positive values are drawn from: its variance is
    infinite for k above a half.

    Source: Zhang and Stephens 2009, A new and efficient estimation method for the generalized Pareto
    distribution, Technometrics 51.
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
