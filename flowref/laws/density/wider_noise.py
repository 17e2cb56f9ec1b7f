"""Weights of a random bound whose noise is drawn wider where few draws decide."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from flowref.model import Array
from flowref.model.abilities import Density, Widened, Widening, offers

# How much wider normal noise is drawn, one after the other, until weights are even; narrower where none is.
FACTORS = (1.0, 1.3, 1.7, 2.5, 0.75)
# The standard deviation of weights beside their mean up to which they are even, and from which on what is
# missing may be what was not drawn.
EVEN, UNEVEN = 1.0, 3.0
# By how many standard errors a mean with narrower noise may be less than one with wider noise.
AGREE = 3.0


def factors_of(flow: Density, draws: int) -> tuple[float, ...]:
    """Those that may help: of e to a mean of several draws none does, nor of what draws nothing."""
    random = bool(flow.promises.get("estimator"))
    return FACTORS if draws == 1 and random and offers(flow, Widened) else FACTORS[:1]


def bounds(flow: Density, x: Array, draws: int, factor: float) -> Array | None:
    r"""The bound at points, ``(rows, draws)``; where its noise $\epsilon$ is drawn wider, with
    $\log q(\epsilon) - \log q'(\epsilon)$, so that e to it has the same mean. None where that is not known.
    """
    points = np.repeat(x, draws, 0).reshape(len(x) * draws, *flow.density_shape)
    with _wider(flow, factor) as weights:
        bound = np.asarray(flow.log_prob(points, None), dtype=np.float64).reshape(len(x), draws)
    if factor == 1:
        return bound
    more = weights[0].log_weights(len(points)) if weights else None
    return None if more is None else bound + more.reshape(bound.shape)


@contextlib.contextmanager
def _wider(flow: Density, factor: float) -> Iterator[list[Widening]]:
    if factor == 1 or not offers(flow, Widened):
        yield []
        return
    with flow.widened(factor) as widening:
        yield [widening]


def averaged(bound: Array, scatter: float = 1.0) -> Array:
    """The mean over draws, less what their scatter adds to e to that: e to a mean is on average larger than
    e to the expectation, to first order by half of its variance.
    """
    draws = bound.shape[1]
    less = scatter * bound.var(1, ddof=1) / draws if draws > 1 else 0.0
    return np.asarray(bound.mean(1) - less)


class Mean(NamedTuple):
    """A mean of weights, its standard error, and whether they are spread so far that some may be missing."""

    mean: float
    error: float
    uneven: bool


class Guard(NamedTuple):
    """What one weight may hold of their sum, and the least effective sample size."""

    heaviest: float
    effective: float = 0.0

    def passes(self, weights: Array) -> bool:
        """Whether no few of the weights decide."""
        total = weights.sum()
        return bool(
            weights.max() <= self.heaviest * total
            and total**2 >= self.effective * (weights**2).sum()
        )


def mean_of(
    weigh: Callable[[float], Array | None],
    factors: Sequence[float],
    target: float,
    most: float,
    guard: Guard,
) -> Mean | None:
    """The mean of weights that belong to noise so many times as wide, as it is known best; None where a few of
    them decide, whatever noise is.

    Less than the ``target`` counts as known last where weights are uneven; by noise that is narrower if wider
    noise finds no more. Of weights of which few decide so much may be left when none counts more than
    ``most`` that their mean is beyond the target, whatever it is.
    """
    known: list[Mean] = []
    first: Array | None = None
    for factor in factors:
        weights = weigh(factor)
        if weights is None or not np.isfinite(weights).all() or not weights.any():
            continue
        first = weights if first is None else first
        here = Mean(*_mean(weights), bool(weights.std() > UNEVEN * weights.mean()))
        if not guard.passes(weights):
            continue
        if factor < 1 and here.mean < target and not _no_more(here, known):
            continue
        known.append(here)
        if weights.std() <= EVEN * here.mean:
            break
    sure = [one for one in known if one.mean >= target or not one.uneven]
    if known:
        return min(sure or known, key=lambda one: one.error)
    if first is None:
        return None
    least = np.minimum(first, most)
    mean, error = _mean(least)
    beyond = least.max() <= guard.heaviest * least.sum() and mean > target
    return Mean(mean, error, False) if beyond else None


def _no_more(here: Mean, known: Sequence[Mean]) -> bool:
    """Whether wider noise told a mean, and none that is larger."""
    return bool(known) and all(
        one.mean <= here.mean + AGREE * math.hypot(one.error, here.error) for one in known
    )


def _mean(values: Array) -> tuple[float, float]:
    return float(values.mean()), float(values.std() / math.sqrt(len(values)))
