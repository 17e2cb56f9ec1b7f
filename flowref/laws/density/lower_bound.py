"""Lower bounds of a log-density: what variational flows report."""

from __future__ import annotations

import math

import numpy as np

from flowref.laws.density.consistency import few_entries, unconditional
from flowref.laws.density.level_masses import Levels, levels
from flowref.model import (
    CONTRACT,
    STATISTICAL,
    VOLUME,
    Array,
    Batch,
    Residual,
    Undecidable,
    Unsupported,
    law,
)
from flowref.model.abilities import Density, Sampler, offers

# From this share of what accuses on the second stage is looked at, which alone accuses.
CONSPICUOUS = 0.5
# Sizes of the two stages; what one weight may hold of the sum, and the least effective sample size;
# standard errors and the share of the mass that are allowed.
STAGES = (20_000, 100_000)
HEAVIEST, EFFECTIVE = 0.02, 200
ERRORS, SHARE = 5.0, 0.01
# The standard deviation of weights beside their mean from which on what is missing may be what was not
# drawn: their effective number is then a tenth of them.
UNEVEN = 3.0
# Where a few of whole numbers hold most of the mass, no weight counts more than that.
MOST = 20.0
# How often a bound is drawn at each point where it is its mean that is a bound.
DRAWS, FEWER = 16, 4
# Points come from a t distribution with so many degrees of freedom, wider than samples.
DEGREES, WIDER = 5, 1.5


@law(
    "density/lower-bound",
    about=VOLUME,
    points="data",
    force=CONTRACT,
    promise="lower-bound",
    tolerance=STATISTICAL,
    scales=(0.0, 0.3),
    size=1,
    effort=2,
    applies=few_entries & unconditional,
    version=4,
    source="Jensen's inequality: e to an evidence lower bound is on average no more than the density, "
    "which integrates to one; one sample of it is unbiased (Burda et al., arXiv:1509.00519)",
)
def lower_bound(flow: Density, batch: Batch) -> Residual:
    r"""A promised lower bound $V$ of a log-density has $\int e^{E[V(x)]}\,dx \le 1$. Where $V$ is one
    sample of $\log p(x, z) - \log q(z \mid x)$, $\int E[e^{V(x)}]\,dx$ is 1. Two stages; violated only if
    a larger one confirms. Of whole numbers between two ends the integral is a sum, and only more than 1
    accuses.
    """
    whole = levels(flow, batch.seed) if flow.density_support.bounded else None
    if flow.density_support.bounded and whole is None:
        raise Unsupported("its support is bounded")
    excess, mean, error = 0.0, 1.0, 0.0
    random = bool(flow.promises.get("estimator"))
    expected = random and flow.promises["lower-bound"] == "expected"
    # One that draws nothing, as zeros in the place of noise, is no sample of anything.
    sampled = random or flow.promises["lower-bound"] == "one-sample"
    for stage, count in enumerate(STAGES):
        seed, draws = batch.seed + 1000 * stage, DRAWS if expected else 1
        mean, error = (
            mass(flow, count, seed, draws)
            if whole is None
            else mass_of_levels(flow, whole, count, seed, draws)
        )
        above = mean > 1 or expected or not sampled or whole is not None
        gap = mean - 1 if above else 1 - mean
        excess = gap / max(ERRORS * error, SHARE)
        if excess <= CONSPICUOUS:
            break
    if excess > 1 and mean < 1 and error * math.sqrt(STAGES[-1]) > UNEVEN * mean:
        raise Undecidable(
            f"its weights are uneven: a mass of {mean:.3g} may miss what is rarely drawn"
        )
    return Residual(
        np.array([max(excess, 0.0)]),
        allowed=1.0,
        observed={"mass": np.array([mean]), "standard error": np.array([error])},
    )


def mass(flow: Density, count: int, seed: int, draws: int = 1) -> tuple[float, float]:
    """The integral of e to the bound by importance sampling, and its standard error; of e to its mean
    over some draws, less what their scatter adds to that, with fewer points.
    """
    count //= FEWER if draws > 1 else 1
    size = math.prod(flow.density_shape)
    rng = np.random.default_rng(seed)
    center, spread = np.zeros(size), np.ones(size)
    if offers(flow, Sampler):
        drawn = np.asarray(flow.sample(4000, seed, None), dtype=np.float64).reshape(4000, size)
        low, center, high = np.quantile(drawn, (0.25, 0.5, 0.75), axis=0)
        spread = (high - low) / 1.349
        if not (np.isfinite(spread) & (spread > 0)).all():
            raise Undecidable("its samples do not spread in every coordinate")
    t = rng.standard_t(DEGREES, (count, size))
    x = center + WIDER * spread * t
    weights = np.exp(averaged(flow, x, draws) - log_t(t) + np.log(WIDER * spread).sum())
    if not np.isfinite(weights).all():
        raise Undecidable("the bound is not finite everywhere")
    total = weights.sum()
    if weights.max() > HEAVIEST * total or total**2 < EFFECTIVE * (weights**2).sum():
        raise Undecidable("a few points hold most of the mass")
    return float(weights.mean()), float(weights.std() / math.sqrt(count))


def mass_of_levels(
    flow: Density, whole: Levels, count: int, seed: int, draws: int
) -> tuple[float, float]:
    """The sum of e to the bound over whole numbers, and its standard error; where a few points hold most
    of it, of weights that count up to a bound.
    """
    x, logs = whole.draw(np.random.default_rng(seed), count // (FEWER if draws > 1 else 1))
    with np.errstate(over="ignore"):
        weights = np.exp(averaged(flow, x, draws) - logs)
    if not np.isfinite(weights).all():
        raise Undecidable("the bound is not finite everywhere")
    total = weights.sum()
    uneven = weights.max() > HEAVIEST * total or total**2 < EFFECTIVE * (weights**2).sum()
    if uneven:
        weights = np.minimum(weights, MOST)
    mean, error = float(weights.mean()), float(weights.std() / math.sqrt(len(weights)))
    if uneven and mean - 1 <= max(ERRORS * error, SHARE):
        raise Undecidable("a few points hold most of the mass")
    return mean, error


def averaged(flow: Density, x: Array, draws: int, scatter: float = 1.0) -> Array:
    """The bound at points, ``(rows,)``, or its mean over some draws, less what their scatter adds to e to
    that: e to a mean is on average larger than e to the expectation, to first order by half of its
    variance.
    """
    points = np.repeat(x, draws, 0).reshape(len(x) * draws, *flow.density_shape)
    bound = np.asarray(flow.log_prob(points, None), dtype=np.float64).reshape(len(x), draws)
    return np.asarray(
        bound.mean(1) - (scatter * bound.var(1, ddof=1) / draws if draws > 1 else 0.0)
    )


def log_t(t: Array) -> Array:
    """The log-density of independent t distributed numbers, ``(rows,)``."""
    constant = math.lgamma((DEGREES + 1) / 2) - math.lgamma(DEGREES / 2)
    constant -= 0.5 * math.log(DEGREES * math.pi)
    return np.asarray((constant - (DEGREES + 1) / 2 * np.log1p(t**2 / DEGREES)).sum(1))
