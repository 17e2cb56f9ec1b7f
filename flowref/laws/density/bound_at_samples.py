"""Lower bounds of a log-density beside its samples: they are bounds of the density that is sampled."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from flowref.laws.density.consistency import SampledDensity, few_entries, unconditional
from flowref.laws.density.lower_bound import CONSPICUOUS, DRAWS, FEWER
from flowref.laws.density.wider_noise import Guard, averaged, bounds, factors_of, mean_of
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

# Samples of the two stages; around how many of them a bump is put, and how wide it is beside their
# spread.
STAGES, BUMPS, WIDTH = (20_000, 80_000), 8, 0.5
# Standard errors and share of a bump's mass that are allowed.
ERRORS, SHARE = 5.0, 0.03
# The mass of a bump is to be known by samples as well as this, and no drawn point may have more of it
# by the bound.
KNOWN, HEAVIEST = 0.1, 0.02
# What one weight counts for beside the mass by samples, where a few hold most.
MOST = 20.0
# Beyond so many entries few samples fall under a bump.
LARGEST = 4


class Held(NamedTuple):
    """What log-densities are held to: whether masses are to be the same, or only no larger; of how many
    draws the mean counts, and how much of what they scatter is taken off; the share of a mass that is allowed.
    """

    both: bool
    draws: int
    scatter: float = 1.0
    share: float = SHARE


@law(
    "density/lower-bound-at-samples",
    about=VOLUME,
    points="data",
    force=CONTRACT,
    promise="lower-bound",
    tolerance=STATISTICAL,
    local=False,
    scales=(0.0, 0.3),
    size=1,
    effort=2,
    applies=few_entries & unconditional,
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
    random = bool(flow.promises.get("estimator"))
    sampled = random and flow.promises["lower-bound"] == "one-sample"
    if math.prod(flow.density_shape) > LARGEST:
        raise Unsupported(f"its events have more than {LARGEST} entries", waits=True)
    return beside_samples(
        flow, batch, Held(sampled, DRAWS if random and not sampled else 1), "the bound"
    )


def beside_samples(flow: SampledDensity, batch: Batch, held: Held, by: str) -> Residual:
    """Masses of bumps around samples as samples and as log-densities have them, in stages of ever more
    fresh samples, as long as what is found is conspicuous. ``by``: what gives the log-densities.
    """
    worst, both, seen = 0.0, (0.0, 0.0), 0.0
    for stage, count in enumerate(STAGES):
        worst, both, seen = compared(flow, count, batch.seed + 1000 * stage, held)
        if worst <= CONSPICUOUS:
            break
    return Residual(
        np.array([worst]),
        allowed=1.0,
        observed={"by samples": np.array([both[0]]), f"by {by}": np.array([both[1]])},
        note=f"around a sample it has a mass of {both[0]:.3g} by samples, and of {both[1]:.3g} by {by}",
        road=f"a difference of {seen:.2g} of a mass would have been seen",
    )


def compared(
    flow: SampledDensity, count: int, seed: int, held: Held
) -> tuple[float, tuple[float, float], float]:
    """The largest difference of two masses of a bump beside what is allowed, the two, and the share
    that would have been seen there. Raises `Undecidable` where no bump can be judged.
    """
    samples = np.asarray(flow.sample(count, seed, None), dtype=np.float64).reshape(count, -1)
    if not np.isfinite(samples).all():
        raise Undecidable("its samples are not finite")
    found = [
        told
        for heights, x, volume in bumps(samples, count // BUMPS, seed, held)
        if (told := by_bound(flow, x, held, _mean(heights), volume)) is not None
    ]
    if not found:
        raise Undecidable("a few points hold most of the mass by its bound, everywhere")
    return max(found)


def bumps(samples: Array, each: int, seed: int, held: Held) -> Iterator[tuple[Array, Array, float]]:
    """Of bumps around a few samples how high each is at the other samples, points of it, and its
    volume. Of whole numbers a bump is one of them.
    """
    rng, points = np.random.default_rng(seed), each // FEWER if held.draws > 1 else each
    whole = bool((samples == np.round(samples)).all())
    low, high = np.quantile(samples, (0.25, 0.75), axis=0)
    width = WIDTH * (high - low) / 1.349
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


def by_bound(
    flow: SampledDensity, x: Array, held: Held, samples: tuple[float, float], volume: float
) -> tuple[float, tuple[float, float], float] | None:
    """The difference of the mass of a bump by samples, with its standard error, and by the bound at points of
    it, beside what is allowed; both; and the share that would have been seen. Noise is drawn as wide as
    makes weights even; None where nothing does.
    """
    there, error = samples
    if error > KNOWN * there:
        return None

    def weigh(factor: float) -> Array | None:
        bound = bounds(flow, x, held.draws, factor)
        with np.errstate(over="ignore"):
            return None if bound is None else volume * np.exp(averaged(bound, held.scatter))

    # Of e to a mean of draws it is not known what the largest add.
    most = MOST * there if held.draws == 1 else math.inf
    found = mean_of(weigh, factors_of(flow, held.draws), there, most, Guard(HEAVIEST))
    if found is None or (found.mean < there and found.uneven):
        return None
    here = found.mean
    allowed = max(ERRORS * math.hypot(error, found.error), held.share * max(here, there))
    # A bound may be as low as it likes.
    gap = abs(here - there) if held.both else max(here - there, 0.0)
    return gap / allowed, (there, here), allowed / there


def _mean(values: Array) -> tuple[float, float]:
    return float(values.mean()), float(values.std() / math.sqrt(len(values)))
