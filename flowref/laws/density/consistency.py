"""Samples that follow the density that is reported, compared by ratios of densities."""

from __future__ import annotations

import math

import numpy as np

from flowref.laws.common.amounts import measured_share
from flowref.laws.common.end_rounding import onto_an_end
from flowref.laws.common.outcomes import attempt
from flowref.laws.common.requirements import exact_density, exact_log_det
from flowref.laws.common.statistics import (
    Finding,
    Guard,
    Look,
    Mean,
    center_and_spread,
    critical,
    two_stage,
)
from flowref.laws.common.truncation import samples_of_steps
from flowref.laws.density.draws import SampledDensity, refuse_surfaces, repeats
from flowref.laws.density.pictures import samples_beside
from flowref.model import (
    NEARBY,
    STATISTICAL,
    VOLUME,
    Array,
    Batch,
    Residual,
    Support,
    Undecidable,
    Unsupported,
    law,
    requires,
)
from flowref.model.abilities import Density, Flow, Sampler

# Sampling laws: sizes of the two stages.
STAGES = (20_000, 100_000)
HALF_WIDTH, SPREAD = 1.2, 0.7
# Widths of r that are tried, as shares of the spread of the samples: where the density is uneven or
# cut off, narrow ones do.
WIDTHS = (1.0, 0.5, 0.25)
# What no solver that anybody would use is off by.
GROSS = 0.5
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
# The least and the greatest number of each entry.
Ends = tuple[Array, Array]


class TooFew(Undecidable):
    """Too few samples; more might decide."""


@requires(f"its events have more than {SAMPLED_SIZE} entries", waits=True)
def moderate_event_size(flow: Flow) -> bool:
    """Events of moderate size."""
    return math.prod(flow.density_shape) <= SAMPLED_SIZE


@requires("it is conditional", waits=True)
def unconditional(flow: Flow) -> bool:
    """One density, whatever the context."""
    return flow.context_shape is None


@requires("it is conditional, and judged so at one context: [one-context]")
def unconditional_or_bound(flow: Flow) -> bool:
    """The same of laws that have the case in which one context is bound."""
    return flow.context_shape is None


@requires("its data lie on a simplex, which has no volume")
def full_dimensional(flow: Flow) -> bool:
    """Data that fill a set of positive volume."""
    return flow.density_support.kind != "simplex"


# Events of moderate size with an exact density.
can_be_sampled = moderate_event_size & full_dimensional & exact_log_det & exact_density


@law(
    "sampling/follows-density[ratios]",
    key="density/samples-consistent",
    about=VOLUME,
    version=3,
    points="data",
    tolerance=STATISTICAL,
    scales=NEARBY,
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
    if not flow.density_support.bounded and repeats(flow, batch):
        raise Undecidable(
            "the log-density repeats, as that of angles does: which period samples are of is not known"
        )
    given = context_for_sampler(flow, batch)

    def ratios(look: Look) -> Finding:
        try:
            return ratio_scores(flow, look.count, look.seed, given)
        except TooFew:
            if look.index or measured_share(flow, AFFORDABLE) < 1:
                raise
            return ratio_scores(flow, STAGES[-1], batch.seed + 500, given)

    found = two_stage(ratios, STAGES, batch.seed)
    mean = mean_of_ratio(found)

    def again(finer: SampledDensity) -> tuple[float, float]:
        one = ratio_scores(finer, STAGES[0], batch.seed, given)
        return abs(mean_of_ratio(one) - 1), 3 * float(np.asarray(one.observed["standard error"]))

    conspicuous = found.accuses and 0 < abs(mean - 1) < GROSS
    if conspicuous and samples_of_steps(flow, batch, abs(mean - 1), again):
        raise Undecidable(
            f"the mean of r/p is {mean:.4g}, and comes nearer to one with the steps of its solver: it is the "
            "error of these"
        )
    return found.residual()


def mean_of_ratio(found: Finding) -> float:
    """As it was found; one where there was none to find."""
    return float(np.asarray(found.observed.get("mean of r/p", 1.0)))


def context_for_sampler(flow: Sampler, batch: Batch) -> Array | None:
    """The context at which a conditional density is looked at, in as many rows as its sampler
    takes: one for each sample, or one for all; None where there is none.

    Raises: `Unsupported` where it takes neither, `Undecidable` where it raises without a context.
    """
    if batch.context is None:
        if refused := attempt(flow.sample, 2, batch.seed, None)[1]:
            raise Undecidable(f"sample raises {refused}: see shape/one-number-per-point[samples]")
        return None
    wanted = (2, *flow.density_shape)
    for rows in (2, 1):
        out, _ = attempt(flow.sample, 2, batch.seed, batch.context[:1].repeat(rows, 0))
        if out is not None and np.shape(out) in (wanted, (1, *wanted)):
            return batch.context[:1] if rows == 1 else batch.context[:1].repeat(2, 0)
    raise Unsupported("it samples neither one point for each context nor several for one")


def same_context_rows(given: Array | None, count: int) -> Array | None:
    """One context, for so many points."""
    return None if given is None else given[:1].repeat(count, 0)


def draws(flow: Sampler, count: int, seed: int, given: Array | None) -> Array:
    """So many samples, at one context.

    Raises: `Unsupported` where their shape is another, of which another law speaks.
    """
    each = given is not None and len(given) > 1
    x = np.asarray(
        flow.sample(count, seed, same_context_rows(given, count) if each else given), float
    )
    if given is not None and x.shape == (1, count, *flow.density_shape):  # so many for each context
        x = x[0]
    if x.shape != (count, *flow.density_shape):
        raise Unsupported(
            f"sample({count}) returned shape {x.shape}; expected {(count, *flow.density_shape)}"
        )
    return x


def share_without_density(lost: Array, points: Array, support: Support) -> float:
    """The share of samples without a density. Raises `Undecidable` where it accuses with those that lie far
    out, or were rounded onto an end of the data, and not without them.
    """
    near = lost & (np.abs(points) <= FAR).all(1) & ~onto_an_end(points, support)
    if near.mean() <= LACKING < lost.mean():
        raise Undecidable(
            "its samples lie so far out, or so near an end, that rounding leaves nothing of their density"
        )
    return float(lost.mean())


def ratio_scores(flow: SampledDensity, count: int, seed: int, given: Array | None) -> Finding:
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
        return _lost("share of samples that are not finite", share)
    # What is not finite a density may refuse.
    x = np.where(kept.reshape(-1, *[1] * (x.ndim - 1)), x, x[kept][0])
    log_p = np.asarray(flow.log_prob(x, same_context_rows(given, count)), dtype=np.float64).reshape(
        count
    )
    outside = kept & ~np.isfinite(log_p)
    if (share := share_without_density(outside, flat, flow.density_support)) > LACKING:
        return _lost("share of samples with density zero or nan", share)
    flat, log_p = flat[kept & ~outside], log_p[kept & ~outside]
    # Whole numbers have masses, whatever is told between them, or of those that are none of its values.
    ends = (flat.min(0), flat.max(0)) if (flat == np.round(flat)).all() else None
    if ends is None:
        refuse_surfaces(flow, flat, None if given is None else same_context_rows(given, len(flat)))
    middle, spread = center_and_spread(flat)
    if flow.promises.get("atoms") and not (spread > 0).all():
        raise Undecidable("its samples do not spread in every coordinate")
    # Where half of the samples coincide, the density beside them says how many it expects there.
    spread = np.where(spread > 0, spread, NARROW * (1 + np.abs(middle)))
    centers = [middle] + [
        middle + s * spread * axis for axis in np.eye(len(middle)) for s in (-1.0, 1.0)
    ]
    rng = np.random.default_rng(seed)
    told = (mean_ratio(flow, flat, log_p, center, spread, rng, given, ends) for center in centers)
    means = [one for one in told if one is not None]
    if not means:
        raise TooFew("no part of the density is sampled evenly enough to compare")
    limit, worst = critical(len(means)), max(means, key=lambda one: abs(one.mean - 1) / one.error)
    return Finding(
        abs(worst.mean - 1) / worst.error / limit,
        {
            "mean of r/p": worst.mean,
            "standard error": worst.error,
            "samples": count,
            "smallest bias it could have seen": limit * min(one.error for one in means),
        },
    )


def _lost(what: str, share: float) -> Finding:
    """What no number of samples explains."""
    return Finding(math.inf, {what: share, "smallest bias it could have seen": LACKING})


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
        from_r = importance_log_ratios(flow, center, width, rng, given, ends)
        if not np.isfinite(from_r).all():
            continue
        # Of the size of the ratio itself, so that a density that is far off overflows nothing.
        size = float(np.median(from_r))
        probed = np.exp(np.minimum(from_r - size, LARGEST_LOG))
        log_r = log_of_r(flat, center, width, ends)
        sampled = np.exp(np.minimum(log_r - log_p - size, LARGEST_LOG))
        mean = float(sampled.mean())
        if not Guard(LARGEST_SHARE).passes(probed) or not mean:
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


def importance_log_ratios(
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
    else:
        mass = math.erf(HALF_WIDTH / (SPREAD * math.sqrt(2)))
        w = SPREAD * math.sqrt(2) * erfinv(mass * (2 * rng.random((PROBES, len(center))) - 1))
        points = center + spread * w
    shaped = points.reshape(PROBES, *flow.density_shape)
    log_p = np.asarray(flow.log_prob(shaped, same_context_rows(given, PROBES)), dtype=np.float64)
    return log_of_r(points, center, spread, ends) - log_p.reshape(PROBES)


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


def log_masses(x: Array, center: Array, spread: Array, half_width: float, ends: Ends) -> Array:
    """Logarithms of a product of normals at whole numbers, cut off and made to add up to one; -inf
    outside of what they reach. ``x``: ``(batch, entries)``; ``spread``: deviations, ``half_width``: in
    units of them.
    """
    total = np.zeros(len(x))
    for column, middle, deviation, low, high in zip(x.T, center, spread, *ends, strict=True):
        places, logs = _column(middle, deviation, half_width, low, high)
        found = np.searchsorted(places, column)
        found = np.minimum(found, len(places) - 1)
        total += np.where(places[found] == column, logs[found], -np.inf)
    return total


def draw_masses(
    rng: np.random.Generator,
    count: int,
    center: Array,
    spread: Array,
    half_width: float,
    ends: Ends,
) -> Array:
    """So many points of these masses, ``(count, entries)``."""
    columns = []
    for middle, deviation, low, high in zip(center, spread, *ends, strict=True):
        places, logs = _column(middle, deviation, half_width, low, high)
        columns.append(rng.choice(places, count, p=np.exp(logs)))
    return np.stack(columns, axis=1)


def _column(
    middle: float, deviation: float, half_width: float, least: float, greatest: float
) -> tuple[Array, Array]:
    """The whole numbers that one normal reaches, at least the nearest, and the logarithms of its masses."""
    reach = half_width * deviation
    low, high = math.ceil(max(middle - reach, least)), math.floor(min(middle + reach, greatest))
    nearest = float(np.clip(round(middle), least, greatest))
    places = np.arange(low, high + 1.0) if low <= high else np.array([nearest])
    logs = -0.5 * ((places - middle) / deviation) ** 2
    return places, np.asarray(logs - np.logaddexp.reduce(logs))
