"""Lower bounds of a log-density, as variational flows report: their mass, with noise widened if
few draws dominate.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from flowref.laws.common.outcomes import attempt
from flowref.laws.common.statistics import (
    EFFECTIVE,
    HEAVIEST,
    Finding,
    Guard,
    Look,
    Mean,
    center_and_spread,
    two_stage,
)
from flowref.laws.density.consistency import moderate_event_size, unconditional
from flowref.model import (
    CONTRACT,
    NEARBY,
    STATISTICAL,
    VOLUME,
    Array,
    Batch,
    Residual,
    Undecidable,
    Unsupported,
    law,
)
from flowref.model.abilities import Density, Sampler, Widened, offers

# From this share of the allowed difference on, the second stage decides.
CONSPICUOUS = 0.5
# Sample sizes of the two stages, and the allowed error of the mass.
STAGES, SHARE = (20_000, 100_000), 0.01
# Weights are cut at this value if a few points dominate.
MOST = 20.0
# Draws per point if the mean over draws is the bound, and the divisor of the number of points.
DRAWS, FEWER = 16, 4
# Points are t-distributed with this many degrees of freedom, wider than samples.
DEGREES, WIDER = 5, 1.5
# Samples that show the levels, the largest number of levels, and the share of a uniform proposal.
SAMPLES, VALUES, ALIKE = 4_000, 4_096, 0.5
# Factors of the noise width, tried until weights are even; the last one is narrower.
FACTORS = (1.0, 1.3, 1.7, 2.5, 0.75)
# The relative standard deviation up to which weights are even, and the standard errors by which a
# mean with narrower noise may be below one with wider noise.
EVEN, AGREE = 1.0, 3.0


@law(
    "density/mass[bound]",
    key="density/lower-bound",
    about=VOLUME,
    points="data",
    force=CONTRACT,
    promise="lower-bound",
    tolerance=STATISTICAL,
    scales=NEARBY,
    size=1,
    effort=2,
    applies=moderate_event_size & unconditional,
    version=5,
    source="Jensen's inequality: e to an evidence lower bound is on average no more than the density, "
    "which integrates to one; one sample of it is unbiased (Burda et al., arXiv:1509.00519)",
)
def lower_bound(flow: Density, batch: Batch) -> Residual:
    r"""A promised lower bound $V$ of a log-density has $\int e^{E[V(x)]}\,dx \le 1$. If $V$ is one
    sample of $\log p(x, z) - \log q(z \mid x)$, $\int E[e^{V(x)}]\,dx = 1$. Two stages; violated
    only if a larger one confirms. For integer data between two ends the integral is a sum, and
    only a sum above 1 is a violation.
    """
    whole = levels(flow, batch.seed) if flow.density_support.has_end else None
    if flow.density_support.has_end and whole is None:
        raise Unsupported("its support is bounded")
    random = flow.certainty.estimate
    expected = random and flow.certainty.bound == "expected"
    # A bound without random numbers, as with zeros in place of noise, is no sample.
    sampled = random or flow.certainty.bound == "one-sample"
    bounded = expected or not sampled or whole is not None

    def mass(look: Look) -> Finding:
        found = known_mass(flow, whole, look, DRAWS if expected else 1)
        mean, room = found.mean, found.room(SHARE)
        gap = mean - 1 if bounded or mean > 1 else 1 - mean
        missing = f"its weights are uneven: a mass of {mean:.3g} may miss rare draws"
        return Finding(
            max(gap / room, 0.0),
            {"mass": mean, "standard error": found.error},
            method=unseen(mean, room, bounded and mean < 1),
            doubt=missing if found.uneven and mean < 1 else "",
        )

    return two_stage(mass, STAGES, batch.seed, CONSPICUOUS).residual()


def unseen(mass: float, seen: float, loose: bool) -> str:
    """A sentence about what the law cannot detect. ``loose``: a mass below 1 is permitted."""
    if not loose:
        return f"a difference of {seen:.2g} would have been seen"
    low = f"a mass of {mass:.2g} is that of a bound: what makes it lower is not seen"
    return f"{low}, nor what makes it higher by less than {np.log((1 + seen) / max(mass, 1e-9)):.2g} nats"


class Levels(NamedTuple):
    """The proposal probabilities of integers per entry, ``(entries, values)``, from the smallest
    on.
    """

    least: float
    shares: Array

    def draw(self, rng: np.random.Generator, count: int) -> tuple[Array, Array]:
        """Points ``(count, entries)`` and their log-probabilities ``(count,)``."""
        columns = [rng.choice(len(one), count, p=one) for one in self.shares]
        logs = sum(np.log(one[column]) for one, column in zip(self.shares, columns, strict=True))
        return self.least + np.stack(columns, axis=1).astype(np.float64), np.asarray(logs)


def levels(flow: Density, seed: int) -> Levels | None:
    """The proposal of integers between the ends of a support, as for dequantized images; None if
    samples are not integers.
    """
    support = flow.density_support
    if not offers(flow, Sampler) or support.coordinates or support.kind in ("simplex", "ordered"):
        return None
    low, high = (float(end) for end in support.ends)
    if not math.isfinite(high - low):
        return None
    drawn, _ = attempt(flow.sample, SAMPLES, seed, None)
    size = math.prod(flow.density_shape)
    if drawn is None or np.size(drawn) != SAMPLES * size:
        return None
    flat = np.asarray(drawn, dtype=np.float64).reshape(SAMPLES, size)
    if not (flat == np.round(flat)).all() or flat.min() < low or flat.max() > high:
        return None
    least, greatest = math.ceil(low), max(math.ceil(high) - 1, int(flat.max()))
    count = greatest - least + 1
    if not 2 <= count <= VALUES:
        return None
    seen = np.stack(
        [np.bincount((column - least).astype(int), minlength=count) for column in flat.T]
    )
    return Levels(float(least), ALIKE / count + (1 - ALIKE) * seen / SAMPLES)


def known_mass(flow: Density, whole: Levels | None, look: Look, draws: int) -> Mean:
    """The integral of the exponential of the bound, or its sum over levels, with noise widened
    until weights are even; for a mean over draws, corrected for their scatter. Raises
    `Undecidable` if few points dominate.
    """
    count = look.count // (FEWER if draws > 1 else 1)
    if whole is None:
        x, logs = spread_points(flow, count, look.seed)
    else:
        x, logs = whole.draw(np.random.default_rng(look.seed), count)

    def weigh(factor: float) -> Array | None:
        bound = lower_bound_draws(flow, x, draws, factor)
        if bound is None:
            return None
        with np.errstate(over="ignore"):
            weights = np.exp(averaged(bound) - logs)
        if not np.isfinite(weights).all():
            raise Undecidable("the bound is not finite everywhere")
        return np.asarray(weights)

    # For the exponential of a mean of draws the contribution of large ones is unknown.
    most = MOST if draws == 1 or whole is not None else math.inf
    found = mean_of(weigh, factors_of(flow, draws), 1.0, most, Guard(HEAVIEST, EFFECTIVE))
    if found is None:
        raise Undecidable("a few points hold most of the mass")
    return found


def spread_points(flow: Density, count: int, seed: int) -> tuple[Array, Array]:
    """Independent t-distributed points ``(count, size)`` wider than samples, and their
    log-densities ``(count,)``.
    """
    size = math.prod(flow.density_shape)
    center, spread = np.zeros(size), np.ones(size)
    if offers(flow, Sampler):
        drawn = np.asarray(flow.sample(4000, seed, None), dtype=np.float64).reshape(4000, size)
        center, spread = center_and_spread(drawn)
        if not (np.isfinite(spread) & (spread > 0)).all():
            raise Undecidable("its samples do not spread in every coordinate")
    t = np.random.default_rng(seed).standard_t(DEGREES, (count, size))
    constant = math.lgamma((DEGREES + 1) / 2) - math.lgamma(DEGREES / 2)
    constant -= 0.5 * math.log(DEGREES * math.pi)
    log_t = (constant - (DEGREES + 1) / 2 * np.log1p(t**2 / DEGREES)).sum(1)
    return center + WIDER * spread * t, log_t - np.log(WIDER * spread).sum()


def factors_of(flow: Density, draws: int) -> tuple[float, ...]:
    """The applicable noise factors: only 1 for a mean of several draws, or without noise."""
    random = flow.certainty.estimate
    return FACTORS if draws == 1 and random and offers(flow, Widened) else FACTORS[:1]


def lower_bound_draws(flow: Density, x: Array, draws: int, factor: float) -> Array | None:
    r"""The bound at points, ``(n, draws)``; with noise $\epsilon$ widened by ``factor``, plus
    $\log q(\epsilon) - \log q'(\epsilon)$, which keeps the mean of its exponential. None if the
    noise density is unknown.
    """
    points = np.repeat(x, draws, 0).reshape(len(x) * draws, *flow.density_shape)
    as_it_is = contextlib.nullcontext()
    wider = flow.widened(factor) if factor != 1 and offers(flow, Widened) else as_it_is
    with wider as widening:
        bound = np.asarray(flow.log_prob(points, None), dtype=np.float64).reshape(len(x), draws)
    if factor == 1:
        return bound
    more = None if widening is None else widening.log_weights(len(points))
    return None if more is None else bound + more.reshape(bound.shape)


def averaged(bound: Array, scatter: float = 1.0) -> Array:
    """The mean over draws of ``(n, draws)``, minus ``scatter`` times half their variance,
    ``(n,)``: the exponential of a mean is on average above that of the expectation by this much,
    to first order.
    """
    draws = bound.shape[1]
    less = scatter * bound.var(1, ddof=1) / draws if draws > 1 else 0.0
    return np.asarray(bound.mean(1) - less)


def mean_of(
    weigh: Callable[[float], Array | None],
    factors: Sequence[float],
    target: float,
    most: float,
    guard: Guard,
) -> Mean | None:
    """The most accurate mean of weights over noise factors; None if a few weights dominate for
    all.

    A mean below ``target`` is only used if wider noise finds no more, since uneven weights may
    miss mass. With uneven weights cut at ``most`` the mean may still exceed the target, which is
    then certain.
    """
    known: list[Mean] = []
    first: Array | None = None
    for factor in factors:
        weights = weigh(factor)
        if weights is None or not np.isfinite(weights).all() or not weights.any():
            continue
        first = weights if first is None else first
        here = Mean.of(weights)
        lost = factor < 1 and here.mean < target and not _no_more(here, known)
        if lost or not guard.passes(weights):
            continue
        known.append(here)
        if weights.std() <= EVEN * here.mean:
            break
    if known:
        sure = [one for one in known if one.mean >= target or not one.uneven]
        return min(sure or known, key=lambda one: one.error)
    if first is None:
        return None
    least = np.minimum(first, most)
    found = Mean.of(least)._replace(uneven=False)
    return found if guard._replace(effective=0.0).passes(least) and found.mean > target else None


def _no_more(here: Mean, known: Sequence[Mean]) -> bool:
    """Whether wider noise gave a mean, and none is larger."""
    return bool(known) and all(
        one.mean <= here.mean + AGREE * math.hypot(one.error, here.error) for one in known
    )
