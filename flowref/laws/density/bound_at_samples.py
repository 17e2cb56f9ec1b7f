"""Lower bounds and estimates of a log-density beside its samples: they are those of the density that is sampled."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from flowref.laws.common.statistics import (
    ERRORS,
    Finding,
    Guard,
    Look,
    Mean,
    center_and_spread,
    two_stage,
)
from flowref.laws.density.consistency import moderate_event_size, unconditional
from flowref.laws.density.draws import SampledDensity
from flowref.laws.density.lower_bound import (
    CONSPICUOUS,
    DRAWS,
    FEWER,
    MOST,
    averaged,
    factors_of,
    lower_bound_draws,
    mean_of,
)
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
    requires,
)
from flowref.model.abilities import Flow

# Samples of the two stages; around how many of them a bump is put, and how wide it is beside their
# spread.
STAGES, BUMPS, WIDTH = (20_000, 80_000), 8, 0.5
# The share of a bump's mass that is allowed, as of an estimate that is promised to be without bias; of one that
# is integrated step by step, and that may be a series which is cut.
SHARE, INTEGRATED, CUT = 0.03, 0.1, 0.5
# The mass of a bump is to be known by samples as well as this.
KNOWN = 0.1
# Beyond so many entries few samples fall under a bump.
LARGEST = 4
# e to a mean over draws is known where these scatter no more.
SCATTER = 0.1


class MassTolerance(NamedTuple):
    """What log-densities are held to: whether masses are to be the same, or only no larger; of how many
    draws the mean counts, and how much of what they scatter is taken off; the share of a mass that is allowed.
    """

    both: bool
    draws: int
    scatter: float = 1.0
    share: float = SHARE


@law(
    "sampling/follows-bound",
    key="density/lower-bound-at-samples",
    about=VOLUME,
    points="data",
    force=CONTRACT,
    promise="lower-bound",
    tolerance=STATISTICAL,
    local=False,
    scales=NEARBY,
    size=1,
    effort=2,
    applies=moderate_event_size & unconditional,
    version=3,
    source="one sample of log p(x, z) - log q(z | x) has the density as the mean of its exponential (Burda et al., "
    "arXiv:1509.00519), which is that of what is sampled",
)
def lower_bound_at_samples(flow: SampledDensity, batch: Batch) -> Residual:
    r"""A promised lower bound V that is one sample of $\log p(x, z) - \log q(z \mid x)$ belongs to what is
    sampled: $\int E[e^{V(x)}]\,k(x)\,dx = E_{x \sim sample}[k(x)]$ for bumps k around samples; that of
    any other bound, $\int e^{E[V(x)]}\,k(x)\,dx$, is no larger.

    Two stages; violated only if a larger one with fresh draws confirms.
    """
    random = flow.certainty.estimate
    sampled = random and flow.certainty.bound == "one-sample"
    refuse_large(flow)
    held = MassTolerance(sampled, DRAWS if random and not sampled else 1)
    return beside_samples(flow, batch, held, "the bound")


@requires("its log-density is no estimate")
def estimated_density(flow: Flow) -> bool:
    """A log-density that is exact is held to more, and a bound to what it is."""
    promises = flow.promises
    return bool(promises.get("estimator")) and not promises.get("lower-bound")


@law(
    "sampling/follows-density[estimate]",
    key="density/estimate-at-samples",
    about=VOLUME,
    points="data",
    tolerance=STATISTICAL,
    local=False,
    scales=NEARBY,
    size=1,
    effort=2,
    applies=estimated_density & moderate_event_size & unconditional,
    source="Grathwohl et al., FFJORD (arXiv:1810.01367), section 3.1: the estimate of the log-density has the "
    "log-density as its mean",
)
def estimate_at_samples(flow: SampledDensity, batch: Batch) -> Residual:
    r"""An estimated log-density V is on average that of what is sampled:
    $\int e^{E[V(x)]}\,k(x)\,dx = E_{x \sim sample}[k(x)]$ for bumps k around samples, within a tenth where
    it is integrated step by step and a half where it may be a series that is cut.

    Two stages; violated only if a larger one with fresh draws confirms.
    """
    refuse_large(flow)
    x = np.asarray(flow.sample(DRAWS, batch.seed, None), dtype=np.float64)
    told = np.asarray(flow.log_prob(np.repeat(x, DRAWS, 0), None), dtype=np.float64)
    # As estimates scatter at most of the samples.
    if np.median(told.reshape(len(x), -1).var(1, ddof=1)) > SCATTER * DRAWS:
        raise Undecidable("its estimates scatter too much to know e to their mean")
    share = INTEGRATED if flow.certainty.log_det else CUT
    share = SHARE if flow.certainty.unbiased else share
    return beside_samples(flow, batch, MassTolerance(True, DRAWS, 0.5, share), "the estimate")


def refuse_large(flow: SampledDensity) -> None:
    """Raise `Unsupported` where few samples fall under a bump."""
    if math.prod(flow.density_shape) > LARGEST:
        raise Unsupported(f"its events have more than {LARGEST} entries", waits=True)


def beside_samples(flow: SampledDensity, batch: Batch, held: MassTolerance, by: str) -> Residual:
    """Masses of bumps around samples as samples and as log-densities have them, in stages of ever more
    fresh samples, as long as what is found is conspicuous. ``by``: what gives the log-densities.
    """

    def worst(look: Look) -> Finding:
        count, seed = look.count, look.seed
        samples = np.asarray(flow.sample(count, seed, None), dtype=np.float64).reshape(count, -1)
        if not np.isfinite(samples).all():
            raise Undecidable("its samples are not finite")
        found = [
            bump_mass_finding(flow, x, held, Mean.of(heights), volume, by)
            for heights, x, volume in bumps(samples, count // BUMPS, seed, held)
        ]
        known = [one for one in found if one is not None]
        if not known:
            raise Undecidable("a few points hold most of the mass by its bound, everywhere")
        # Where none is off, the largest mass, of which most would have been seen.
        return max(known, key=lambda one: (float(one.excess), float(one.observed["by samples"])))

    return two_stage(worst, STAGES, batch.seed, CONSPICUOUS).residual()


def bumps(
    samples: Array, each: int, seed: int, held: MassTolerance
) -> Iterator[tuple[Array, Array, float]]:
    """Of bumps around a few samples how high each is at the other samples, points of it, and its
    volume. Of whole numbers a bump is one of them.
    """
    rng, points = np.random.default_rng(seed), each // FEWER if held.draws > 1 else each
    whole = bool((samples == np.round(samples)).all())
    width = WIDTH * center_and_spread(samples)[1]
    if not whole and not (width > 0).all():
        raise Undecidable("its samples do not spread in every coordinate")
    for center in samples[:BUMPS]:
        others = samples[BUMPS:] - center
        if whole:
            x = np.repeat(center[None], points, 0)
            yield (others == 0).all(1).astype(np.float64), x, 1.0
        else:
            heights = np.exp(-0.5 * ((others / width) ** 2).sum(1))
            x = center + width * rng.standard_normal((points, len(width)))
            yield heights, x, math.prod(math.sqrt(2 * math.pi) * width)


def bump_mass_finding(
    flow: SampledDensity, x: Array, held: MassTolerance, samples: Mean, volume: float, by: str
) -> Finding | None:
    """The mass of a bump by samples, and by log-densities at points of it. Noise is drawn as wide as makes
    weights even; None where nothing does.
    """
    there = samples.mean
    if samples.error > KNOWN * there:
        return None

    def weigh(factor: float) -> Array | None:
        bound = lower_bound_draws(flow, x, held.draws, factor)
        with np.errstate(over="ignore"):
            return None if bound is None else volume * np.exp(averaged(bound, held.scatter))

    # Of e to a mean of draws it is not known what the largest add.
    most = MOST * there if held.draws == 1 else math.inf
    found = mean_of(weigh, factors_of(flow, held.draws), there, most, Guard())
    if found is None or (found.mean < there and found.uneven):
        return None
    here = found.mean
    room = max(ERRORS * math.hypot(samples.error, found.error), held.share * max(here, there))
    # A bound may be as low as it likes.
    gap = abs(here - there) if held.both else max(here - there, 0.0)
    return Finding(
        gap / room,
        {"by samples": there, f"by {by}": here},
        f"around a sample it has a mass of {there:.3g} by samples, and of {here:.3g} by {by}",
        f"a difference of {room / there:.2g} of a mass would have been seen",
    )
