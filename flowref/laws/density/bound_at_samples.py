"""Lower bounds and estimates of a log-density compared with its samples: both belong to one
density.
"""

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

# Samples of the two stages, number of bumps around samples, and their width relative to the spread.
STAGES, BUMPS, WIDTH = (20_000, 80_000), 8, 0.5
# The allowed relative error of a bump's mass: for estimates promised to be unbiased, for estimates
# integrated step by step, and for possibly truncated series.
SHARE, INTEGRATED, CUT = 0.03, 0.1, 0.5
# The required relative accuracy of a bump's mass by samples.
KNOWN = 0.1
# With more entries few samples fall under a bump.
LARGEST = 4
# The exponential of a mean over draws is known if they scatter less than this.
SCATTER = 0.1


class MassTolerance(NamedTuple):
    """How log-densities are compared: ``both`` directions, or as upper bound only; the number of
    draws of a mean, and the share of their scatter that is subtracted; the allowed share of a
    mass.
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
    r"""A promised lower bound V that is one sample of $\log p(x, z) - \log q(z \mid x)$ satisfies
    $\int E[e^{V(x)}]\,k(x)\,dx = E_{x \sim sample}[k(x)]$ for bumps k around samples; for any
    other bound, $\int e^{E[V(x)]}\,k(x)\,dx$ is no larger.

    Two stages; violated only if a larger one with fresh draws confirms.
    """
    random = flow.certainty.estimate
    sampled = random and flow.certainty.bound == "one-sample"
    refuse_large(flow)
    held = MassTolerance(sampled, DRAWS if random and not sampled else 1)
    return beside_samples(flow, batch, held, "the bound")


@requires("its log-density is no estimate")
def estimated_density(flow: Flow) -> bool:
    """Exact log-densities and bounds have stronger laws of their own."""
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
    r"""An estimated log-density V is on average that of the samples: $\int e^{E[V(x)]}\,k(x)\,dx =
    E_{x \sim sample}[k(x)]$ for bumps k around samples, within a tenth if it is integrated step by
    step and a half if it may be a truncated series.

    Two stages; violated only if a larger one with fresh draws confirms.
    """
    refuse_large(flow)
    x = np.asarray(flow.sample(DRAWS, batch.seed, None), dtype=np.float64)
    log_p = np.asarray(flow.log_prob(np.repeat(x, DRAWS, 0), None), dtype=np.float64)
    # Typical scatter of the estimates at samples.
    if np.median(log_p.reshape(len(x), -1).var(1, ddof=1)) > SCATTER * DRAWS:
        raise Undecidable("its estimates scatter too much to know e to their mean")
    share = INTEGRATED if flow.certainty.log_det else CUT
    share = SHARE if flow.certainty.unbiased else share
    return beside_samples(flow, batch, MassTolerance(True, DRAWS, 0.5, share), "the estimate")


def refuse_large(flow: SampledDensity) -> None:
    """Raise `Unsupported` if few samples would fall under a bump."""
    if math.prod(flow.density_shape) > LARGEST:
        raise Unsupported(f"its events have more than {LARGEST} entries", blocked=True)


def beside_samples(flow: SampledDensity, batch: Batch, held: MassTolerance, by: str) -> Residual:
    """Masses of bumps by samples and by log-densities, in stages with more and fresh samples while
    the difference is conspicuous. ``by``: name of the source of the log-densities. Raises
    `Undecidable` if samples are not finite or a few points dominate.
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
        # If none deviates, report the largest mass, which is the most sensitive.
        return max(known, key=lambda one: (float(one.excess), float(one.observed["by samples"])))

    return two_stage(worst, STAGES, batch.seed, CONSPICUOUS).residual()


def bumps(
    samples: Array, each: int, seed: int, held: MassTolerance
) -> Iterator[tuple[Array, Array, float]]:
    """For each bump around a sample: its height at the other samples ``(n,)``, points of it ``(m,
    size)``, and its volume. For integer samples a bump is one integer point.
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
    """The mass of a bump by samples and by log-densities at its points, with noise widened until
    weights are even; None if they never are.
    """
    there = samples.mean
    if samples.error > KNOWN * there:
        return None

    def weigh(factor: float) -> Array | None:
        bound = lower_bound_draws(flow, x, held.draws, factor)
        with np.errstate(over="ignore"):
            return None if bound is None else volume * np.exp(averaged(bound, held.scatter))

    # For the exponential of a mean of draws the contribution of large ones is unknown.
    most = MOST * there if held.draws == 1 else math.inf
    found = mean_of(weigh, factors_of(flow, held.draws), there, most, Guard())
    if found is None or (found.mean < there and found.uneven):
        return None
    here = found.mean
    room = max(ERRORS * math.hypot(samples.error, found.error), held.share * max(here, there))
    # A bound may be arbitrarily low.
    gap = abs(here - there) if held.both else max(here - there, 0.0)
    return Finding(
        gap / room,
        {"by samples": there, f"by {by}": here},
        f"around a sample it has a mass of {there:.3g} by samples, and of {here:.3g} by {by}",
        f"a difference of {room / there:.2g} of a mass would have been seen",
    )
