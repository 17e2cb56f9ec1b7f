"""Samples that follow the density that is reported, compared by ratios of densities."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple, Protocol

import numpy as np

from flowref.laws.common.outcomes import attempt
from flowref.laws.common.requirements import exact_density, exact_log_det
from flowref.laws.density.draws import repeats
from flowref.laws.density.lattice import Ends, draw_masses, log_masses
from flowref.laws.density.pictures import samples_beside
from flowref.laws.density.surfaces import refuse_surfaces
from flowref.model import (
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
from flowref.model.abilities import Density, Flow, Sampler


class SampledDensity(Density, Sampler, Protocol):
    """A density that is sampled."""


# Sampling laws: sizes of the two stages, and the false-alarm rate of each.
STAGES, LEVEL = (20_000, 100_000), 1e-3
HALF_WIDTH, SPREAD = 1.2, 0.7
# Widths of r that are tried, as shares of the spread of the samples: where the density is uneven or
# cut off, narrow ones do.
WIDTHS = (1.0, 0.5, 0.25)
# Operations of a round trip up to which more samples are drawn at once where a few cannot judge.
AFFORDABLE = 800
# Points from which the variance of r/p is measured; the largest share that one may have of it; and
# the largest variance, in units of the number of samples, with which a mean is still near normal.
PROBES, LARGEST_SHARE, VARIANCE_SHARE = 4_000, 0.05, 0.01
# The width of r, relative to 1 + |x|, where most samples coincide; the largest exponent.
NARROW, LARGEST_LOG = 1e-2, 600.0
# The share of samples that have no density which accuses; of those farther out rounding may leave nothing of
# where they came from, as where scales saturate once weights were moved.
LACKING, FAR = 0.01, 1e8
SAMPLED_SIZE = 12


class TooFew(Undecidable):
    """Too few samples; more might decide."""


@requires(f"its events have more than {SAMPLED_SIZE} entries", waits=True)
def few_entries(flow: Flow) -> bool:
    """Events of moderate size."""
    return math.prod(flow.density_shape) <= SAMPLED_SIZE


@requires("it is conditional", waits=True)
def unconditional(flow: Flow) -> bool:
    """One density, whatever the context."""
    return flow.context_shape is None


@requires("its data lie on a simplex, which has no volume")
def full_dimensional(flow: Flow) -> bool:
    """Data that fill a set of positive volume."""
    return flow.density_support.kind != "simplex"


# Events of moderate size with an exact density.
can_be_sampled = few_entries & full_dimensional & exact_log_det & exact_density


@law(
    "density/samples-consistent",
    about=VOLUME,
    version=3,
    points="data",
    tolerance=STATISTICAL,
    scales=(0.0, 0.3),
    size=1,
    effort=2,
    picture=samples_beside,
    applies=can_be_sampled,
    source="importance sampling: if x ~ p then E[r(x) / p(x)] = 1 for every normalized r supported where p is positive",
)
def samples_consistent(flow: SampledDensity, batch: Batch) -> Residual:
    r"""Samples follow the reported density: $E_{x \sim sample}[r(x)/p(x)] = 1$ for truncated normal
    densities $r$; of whole numbers, for such masses.

    Two stages at level 1e-3 each; violated only if fresh and larger samples confirm the first.
    """
    worst, size = 0.0, 0.0
    numbers: dict[str, float] = {}
    if not flow.density_support.bounded and repeats(flow, batch):
        raise Undecidable(
            "the log-density repeats, as that of angles does: which period samples are of is not known"
        )
    given = one_context(flow, batch)
    for stage, count in enumerate(STAGES):
        try:
            score, smallest, numbers = ratio_scores(flow, count, batch.seed + 1000 * stage, given)
        except TooFew:
            if stage or flow.operations > AFFORDABLE:
                raise
            score, smallest, numbers = ratio_scores(flow, STAGES[-1], batch.seed + 500, given)
        limit = critical(int(numbers.pop("tests")))
        worst, size = score / limit, smallest
        if worst <= 1:
            break
    observed = {name: np.array([value]) for name, value in numbers.items()}
    observed["smallest bias it could have seen"] = np.array([size])
    return Residual(np.array([worst]), allowed=1.0, observed=observed)


def critical(tests: int) -> float:
    """The two-sided normal quantile at the stage's level, shared among the tests made."""
    return NormalDist().inv_cdf(1 - LEVEL / (2 * tests))


def one_context(flow: Sampler, batch: Batch) -> Array | None:
    """The context at which a conditional density is looked at, in as many rows as its sampler
    takes: one for each sample, or one for all; None where there is none.

    Raises: `Unsupported` where it takes neither, `Undecidable` where it raises without a context.
    """
    if batch.context is None:
        if refused := attempt(flow.sample, 2, batch.seed, None)[1]:
            raise Undecidable(f"sample raises {refused}: see sampling/sample-shape")
        return None
    wanted = (2, *flow.density_shape)
    for rows in (2, 1):
        out, _ = attempt(flow.sample, 2, batch.seed, batch.context[:1].repeat(rows, 0))
        if out is not None and np.shape(out) in (wanted, (1, *wanted)):
            return batch.context[:1] if rows == 1 else batch.context[:1].repeat(2, 0)
    raise Unsupported("it samples neither one point for each context nor several for one")


def repeated(given: Array | None, count: int) -> Array | None:
    """One context, for so many points."""
    return None if given is None else given[:1].repeat(count, 0)


def draws(flow: Sampler, count: int, seed: int, given: Array | None) -> Array:
    """So many samples, at one context.

    Raises: `Unsupported` where their shape is another, of which another law speaks.
    """
    each = given is not None and len(given) > 1
    x = np.asarray(flow.sample(count, seed, repeated(given, count) if each else given), float)
    if given is not None and x.shape == (1, count, *flow.density_shape):  # so many for each context
        x = x[0]
    if x.shape != (count, *flow.density_shape):
        raise Unsupported(
            f"sample({count}) returned shape {x.shape}; expected {(count, *flow.density_shape)}"
        )
    return x


def lacking(lost: Array, points: Array) -> float:
    """The share of samples without a density. Raises `Undecidable` where it accuses with those that lie far
    out, and not without them.
    """
    near = lost & (np.abs(points) <= FAR).all(1)
    if near.mean() <= LACKING < lost.mean():
        raise Undecidable(
            "its samples lie so far out that rounding leaves nothing of their density"
        )
    return float(lost.mean())


def ratio_scores(
    flow: SampledDensity, count: int, seed: int, given: Array | None
) -> tuple[float, float, dict[str, float]]:
    """The largest standardized deviation of a mean of r/p from one, over several r; and the bias
    that would have shown.

    r are products of truncated normals around the middle of the samples and around points one
    spread off along each axis. The variance of r/p is measured by points drawn from r itself, since
    the samples of p seldom reach the places that cause it; an r whose variance a few points
    dominate is left out. So that a density that is off by a factor, however large, is not left out
    for that, the variance is relative to the mean.
    """
    x = draws(flow, count, seed, given)
    flat = x.reshape(count, -1)
    kept = np.isfinite(flat).all(1)
    if kept.mean() < 0.99:
        if flow.scale:
            raise Undecidable("more than one sample in a hundred is not finite")
        share = float(1 - kept.mean())
        return math.inf, 0.01, {"tests": 1, "share of samples that are not finite": share}
    # What is not finite a density may refuse.
    x = np.where(kept.reshape(-1, *[1] * (x.ndim - 1)), x, x[kept][0])
    log_p = np.asarray(flow.log_prob(x, repeated(given, count)), dtype=np.float64).reshape(count)
    outside = kept & ~np.isfinite(log_p)
    if (share := lacking(outside, flat)) > LACKING:
        return math.inf, LACKING, {"tests": 1, "share of samples with density zero or nan": share}
    flat, log_p = flat[kept & ~outside], log_p[kept & ~outside]
    # Whole numbers have masses, whatever is told between them, or of those that are none of its values.
    ends = (flat.min(0), flat.max(0)) if (flat == np.round(flat)).all() else None
    if ends is None:
        refuse_surfaces(flow, flat, None if given is None else repeated(given, len(flat)))
    middle = np.median(flat, axis=0)
    spread = (np.quantile(flat, 0.75, axis=0) - np.quantile(flat, 0.25, axis=0)) / 1.349
    if flow.promises.get("atoms") and not (spread > 0).all():
        raise Undecidable("its samples do not spread in every coordinate")
    # Where half of the samples coincide, the density beside them says how many it expects there.
    spread = np.where(spread > 0, spread, NARROW * (1 + np.abs(middle)))
    centers = [middle] + [
        middle + s * spread * axis for axis in np.eye(len(middle)) for s in (-1.0, 1.0)
    ]
    rng = np.random.default_rng(seed)
    scores = []
    for center in centers:
        found = mean_ratio(flow, flat, log_p, center, spread, rng, given, ends)
        if found is not None:
            scores.append(((found.mean - 1) / found.error, found.error, found.mean))
    if not scores:
        raise TooFew("no part of the density is sampled evenly enough to compare")
    score, deviation, mean = max(scores, key=lambda entry: abs(entry[0]))
    numbers = {
        "tests": len(scores),
        "mean of r/p": mean,
        "standard error": deviation,
        "samples": count,
    }
    return abs(score), critical(len(scores)) * min(entry[1] for entry in scores), numbers


class Mean(NamedTuple):
    """The mean of r/p over samples, and its standard error."""

    mean: float
    error: float


def mean_ratio(
    flow: Density,
    flat: Array,
    log_p: Array,
    center: Array,
    spread: Array,
    rng: np.random.Generator,
    given: Array | None,
    ends: Ends | None,
) -> Mean | None:
    """The mean of r/p for the widest r around a center that so many samples can judge; None where
    even a narrow one is not.
    """
    low, high = flow.density_support.ends
    count = len(flat)
    for share in WIDTHS:
        width = share * spread
        if ((center - HALF_WIDTH * width) <= low).any() or (
            (center + HALF_WIDTH * width) >= high
        ).any():
            continue
        from_r = log_ratios(flow, center, width, rng, given, ends)
        if not np.isfinite(from_r).all():
            continue
        # Of the size of the ratio itself, so that a density that is far off overflows nothing.
        size = float(np.median(from_r))
        probed = np.exp(np.minimum(from_r - size, LARGEST_LOG))
        log_r = log_of_r(flat, center, width, ends)
        sampled = np.exp(np.minimum(log_r - log_p - size, LARGEST_LOG))
        mean = float(sampled.mean())
        if probed.max() > LARGEST_SHARE * probed.sum() or not mean:
            continue
        variance = max(float(probed.mean()) / mean - 1, 0.0)
        if variance > VARIANCE_SHARE * count:
            continue
        variance = max(variance, float(sampled.var()) / mean**2)
        if variance:
            # Under the law the mean is one; beyond, its error grows with it.
            factor = math.exp(min(size, LARGEST_LOG)) * mean
            return Mean(factor, math.sqrt(variance / count) * max(factor, 1.0))
    return None


def log_ratios(
    flow: Density,
    center: Array,
    spread: Array,
    rng: np.random.Generator,
    given: Array | None,
    ends: Ends | None,
) -> Array:
    """log r/p at points drawn from r."""
    from scipy.special import erfinv

    if ends is not None:
        points = draw_masses(rng, PROBES, center, SPREAD * spread, HALF_WIDTH / SPREAD, ends)
        shaped = points.reshape(PROBES, *flow.density_shape)
        log_p = np.asarray(flow.log_prob(shaped, repeated(given, PROBES)), dtype=np.float64)
        return log_of_r(points, center, spread, ends) - log_p.reshape(PROBES)
    uniform = rng.random((PROBES, len(center)))
    mass = math.erf(HALF_WIDTH / (SPREAD * math.sqrt(2)))
    w = SPREAD * math.sqrt(2) * erfinv(mass * (2 * uniform - 1))
    points = (center + spread * w).reshape(PROBES, *flow.density_shape)
    log_p = np.asarray(flow.log_prob(points, repeated(given, PROBES)), dtype=np.float64)
    return truncated_normal(points.reshape(PROBES, -1), center, spread) - log_p.reshape(PROBES)


def log_of_r(x: Array, center: Array, spread: Array, ends: Ends | None) -> Array:
    """The logarithm of r: a density, or where there are ends a mass at whole numbers between these."""
    if ends is None:
        return truncated_normal(x, center, spread)
    return log_masses(x, center, SPREAD * spread, HALF_WIDTH / SPREAD, ends)


def truncated_normal(x: Array, center: Array, spread: Array) -> Array:
    """Log-density of a product of normals (deviation SPREAD) truncated to HALF_WIDTH, in units of
    the spread; -inf outside.
    """
    w = (x - center) / spread
    inside = (np.abs(w) < HALF_WIDTH).all(1)
    mass = math.erf(HALF_WIDTH / (SPREAD * math.sqrt(2)))
    constant = -np.log(spread).sum() - len(spread) * (
        0.5 * math.log(2 * math.pi) + math.log(SPREAD) + math.log(mass)
    )
    return np.where(inside, constant - 0.5 * (w**2).sum(1) / SPREAD**2, -np.inf)
