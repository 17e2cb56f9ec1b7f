"""Lower bounds of a log-density: what variational flows report."""

from __future__ import annotations

import math

import numpy as np

from flowref.laws.density.consistency import few_entries, unconditional
from flowref.laws.density.level_masses import Levels, levels
from flowref.laws.density.wider_noise import Guard, Mean, averaged, bounds, factors_of, mean_of
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
# Where a few points hold most of the mass, no weight counts more than that.
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
    version=5,
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
    excess, mean, error, uneven = 0.0, 1.0, 0.0, False
    random = bool(flow.promises.get("estimator"))
    expected = random and flow.promises["lower-bound"] == "expected"
    # One that draws nothing, as zeros in the place of noise, is no sample of anything.
    sampled = random or flow.promises["lower-bound"] == "one-sample"
    for stage, count in enumerate(STAGES):
        seed, draws = batch.seed + 1000 * stage, DRAWS if expected else 1
        mean, error, uneven = known_mass(flow, whole, count, seed, draws)
        above = mean > 1 or expected or not sampled or whole is not None
        gap = mean - 1 if above else 1 - mean
        excess = gap / max(ERRORS * error, SHARE)
        if excess <= CONSPICUOUS:
            break
    if excess > 1 and mean < 1 and uneven:
        raise Undecidable(
            f"its weights are uneven: a mass of {mean:.3g} may miss what is rarely drawn"
        )
    return Residual(
        np.array([max(excess, 0.0)]),
        allowed=1.0,
        observed={"mass": np.array([mean]), "standard error": np.array([error])},
        road=unseen(mean, max(ERRORS * error, SHARE), above and mean < 1),
    )


def unseen(mass: float, seen: float, loose: bool) -> str:
    """What the law does not see. ``loose``: a mass of less than 1 is what a bound may have."""
    if not loose:
        return f"a difference of {seen:.2g} would have been seen"
    low = f"a mass of {mass:.2g} is that of a bound: what makes it lower is not seen"
    return f"{low}, nor what makes it higher by less than {np.log((1 + seen) / max(mass, 1e-9)):.2g} nats"


def known_mass(flow: Density, whole: Levels | None, count: int, seed: int, draws: int) -> Mean:
    """The integral of e to the bound, or its sum over levels, by noise that is as wide as makes weights even; of
    e to its mean over some draws, less what their scatter adds to that, with fewer points. Raises
    `Undecidable` where few points decide.
    """
    count //= FEWER if draws > 1 else 1
    if whole is None:
        x, logs = spread_points(flow, count, seed)
    else:
        x, logs = whole.draw(np.random.default_rng(seed), count)

    def weigh(factor: float) -> Array | None:
        bound = bounds(flow, x, draws, factor)
        if bound is None:
            return None
        with np.errstate(over="ignore"):
            weights = np.exp(averaged(bound) - logs)
        if not np.isfinite(weights).all():
            raise Undecidable("the bound is not finite everywhere")
        return np.asarray(weights)

    # Of e to a mean of draws it is not known what the largest add.
    most = MOST if draws == 1 or whole is not None else math.inf
    found = mean_of(weigh, factors_of(flow, draws), 1.0, most, Guard(HEAVIEST, EFFECTIVE))
    if found is None:
        raise Undecidable("a few points hold most of the mass")
    return found


def spread_points(flow: Density, count: int, seed: int) -> tuple[Array, Array]:
    """Points that are spread wider than samples, and their log-densities."""
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
    return center + WIDER * spread * t, log_t(t) - np.log(WIDER * spread).sum()


def log_t(t: Array) -> Array:
    """The log-density of independent t distributed numbers, ``(rows,)``."""
    constant = math.lgamma((DEGREES + 1) / 2) - math.lgamma(DEGREES / 2)
    constant -= 0.5 * math.log(DEGREES * math.pi)
    return np.asarray((constant - (DEGREES + 1) / 2 * np.log1p(t**2 / DEGREES)).sum(1))
