"""Samples compared with the reported density by density ratios."""

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

# Sample sizes of the two stages of sampling laws.
STAGES = (20_000, 100_000)
HALF_WIDTH, SPREAD = 1.2, 0.7
# Widths of r relative to the spread of the samples; narrow ones are used if the density is uneven
# or cut off.
WIDTHS = (1.0, 0.5, 0.25)
# A deviation that no usable solver has.
GROSS = 0.5
# Operations of a round trip up to which more samples are drawn if a few cannot decide.
AFFORDABLE = 800
# Points for the variance of r/p, the largest share that one point may have of it, and the largest
# variance, relative to the number of samples, at which the mean is nearly normal.
PROBES, LARGEST_SHARE, VARIANCE_SHARE = 4_000, 0.05, 0.01
# The width of r, relative to 1 + |x|, if most samples coincide; the largest exponent.
NARROW, LARGEST_LOG = 1e-2, 600.0
# The share of samples without a density that is a violation; and the distance beyond which rounding
# may lose the origin of a sample, as with scales that saturate once weights have moved.
LACKING, FAR = 0.01, 1e8
SAMPLED_SIZE = 12
# The smallest and the largest value of each entry, ``(size,)`` each.
Ends = tuple[Array, Array]


class TooFew(Undecidable):
    """Raised if more samples might decide."""


@requires(f"its events have more than {SAMPLED_SIZE} entries", blocked=True)
def moderate_event_size(flow: Flow) -> bool:
    """Events have a moderate number of entries."""
    return math.prod(flow.density_shape) <= SAMPLED_SIZE


@requires("it is conditional", blocked=True)
def unconditional(flow: Flow) -> bool:
    """The density has no context."""
    return flow.context_shape is None


@requires("it is conditional, and judged so at one context: [one-context]")
def unconditional_or_bound(flow: Flow) -> bool:
    """For laws with a case at one fixed context."""
    return flow.context_shape is None


@requires("its data lie on a simplex, which has no volume")
def full_dimensional(flow: Flow) -> bool:
    """The data fill a set of positive volume."""
    return flow.density_support.kind != "simplex"


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
    r"""Samples follow the reported density: $E_{x \sim sample}[r(x)/p(x)] = 1$ for truncated
    normal densities $r$; for integer samples, truncated normal masses.

    Two stages at level 1e-3 each; violated only if fresh and larger samples confirm the first.
    """
    if not flow.density_support.has_end and repeats(flow, batch):
        raise Undecidable(
            "the log-density is periodic, as for angles: which period samples are of is not known"
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

    conspicuous = found.violates and 0 < abs(mean - 1) < GROSS
    if conspicuous and samples_of_steps(flow, batch, abs(mean - 1), again):
        raise Undecidable(
            f"the mean of r/p is {mean:.4g}, and comes nearer to one with the steps of its solver: it is the "
            "error of these"
        )
    return found.residual()


def mean_of_ratio(found: Finding) -> float:
    """The measured mean of r/p, 1 if there is none."""
    return float(np.asarray(found.observed.get("mean of r/p", 1.0)))


def context_for_sampler(flow: Sampler, batch: Batch) -> Array | None:
    """The fixed context of a conditional density, with as many rows as its sampler takes: one per
    sample, or one for all; None without a context.

    Raises `Unsupported` if the sampler takes neither, `Undecidable` if it raises without a
    context.
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
    """The first context repeated, ``(count, *context)``; None without a context."""
    return None if given is None else given[:1].repeat(count, 0)


def draws(flow: Sampler, count: int, seed: int, given: Array | None) -> Array:
    """Samples ``(count, *event)`` at one context.

    Raises `Unsupported` if their shape is another, which another law reports.
    """
    each = given is not None and len(given) > 1
    x = np.asarray(
        flow.sample(count, seed, same_context_rows(given, count) if each else given), float
    )
    if given is not None and x.shape == (
        1,
        count,
        *flow.density_shape,
    ):  # ``count`` samples for each context
        x = x[0]
    if x.shape != (count, *flow.density_shape):
        raise Unsupported(
            f"sample({count}) returned shape {x.shape}; expected {(count, *flow.density_shape)}"
        )
    return x


def share_without_density(lost: Array, points: Array, support: Support) -> float:
    """The share of samples without a density. Raises `Undecidable` if it is a violation only
    because of samples that lie far out, or were rounded onto an end of the data.
    """
    near = lost & (np.abs(points) <= FAR).all(1) & ~onto_an_end(points, support)
    if near.mean() <= LACKING < lost.mean():
        raise Undecidable(
            "its samples lie so far out, or so near an end, that rounding leaves nothing of their density"
        )
    return float(lost.mean())


def ratio_scores(flow: SampledDensity, count: int, seed: int, given: Array | None) -> Finding:
    """The largest standardized deviation of a mean of r/p from one over several r, and the
    smallest detectable bias.

    The r are products of truncated normals around the middle of the samples and around points one
    spread off along each axis. The variance of r/p is measured with points drawn from r itself,
    since samples of p seldom reach the regions that cause it; an r whose variance a few points
    dominate is left out. The variance is relative to the mean, so that a density off by a large
    factor is not left out.
    """
    x = draws(flow, count, seed, given)
    flat = x.reshape(count, -1)
    kept = np.isfinite(flat).all(1)
    if kept.mean() < 0.99:
        if flow.scale:
            raise Undecidable("more than one sample in a hundred is not finite")
        share = float(1 - kept.mean())
        return _lost("share of samples that are not finite", share)
    # A density may reject non-finite points.
    x = np.where(kept.reshape(-1, *[1] * (x.ndim - 1)), x, x[kept][0])
    log_p = np.asarray(flow.log_prob(x, same_context_rows(given, count)), dtype=np.float64).reshape(
        count
    )
    outside = kept & ~np.isfinite(log_p)
    if (share := share_without_density(outside, flat, flow.density_support)) > LACKING:
        return _lost("share of samples with density zero or nan", share)
    flat, log_p = flat[kept & ~outside], log_p[kept & ~outside]
    # Integer samples have masses, whatever the density returns in between.
    ends = (flat.min(0), flat.max(0)) if (flat == np.round(flat)).all() else None
    if ends is None:
        refuse_surfaces(flow, flat, None if given is None else same_context_rows(given, len(flat)))
    middle, spread = center_and_spread(flat)
    if flow.promises.get("atoms") and not (spread > 0).all():
        raise Undecidable("its samples do not spread in every coordinate")
    # If half of the samples coincide, the density nearby gives their expected number.
    spread = np.where(spread > 0, spread, NARROW * (1 + np.abs(middle)))
    centers = [middle] + [
        middle + s * spread * axis for axis in np.eye(len(middle)) for s in (-1.0, 1.0)
    ]
    rng = np.random.default_rng(seed)
    tried = (mean_ratio(flow, flat, log_p, center, spread, rng, given, ends) for center in centers)
    means = [one for one in tried if one is not None]
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
    """A finding that no number of samples can explain."""
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
    """The mean of r/p for the widest r around a center that this many samples can judge; None if
    not even a narrow one can.
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
        # Relative to the ratio itself, so that a density that is far off does not overflow.
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
            # Under the law the mean is one; otherwise the error scales with it.
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
    """log r/p at points drawn from r, ``(n,)``."""
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
    """log r at points ``(n, size)``: a density, or with ``ends`` the masses of integers between
    these.
    """
    if ends is None:
        return truncated_normal(x, center, spread)
    return log_masses(x, center, SPREAD * spread, HALF_WIDTH / SPREAD, ends)


def truncated_normal(x: Array, center: Array, spread: Array) -> Array:
    """Log-density of a product of normals (deviation SPREAD) truncated to HALF_WIDTH, in units of
    the spread; -inf outside; ``(n,)``.
    """
    w = (x - center) / spread
    inside = (np.abs(w) < HALF_WIDTH).all(1)
    mass = math.erf(HALF_WIDTH / (SPREAD * math.sqrt(2)))
    constant = -np.log(spread).sum() - len(spread) * (
        0.5 * math.log(2 * math.pi) + math.log(SPREAD) + math.log(mass)
    )
    return np.where(inside, constant - 0.5 * (w**2).sum(1) / SPREAD**2, -np.inf)


def log_masses(x: Array, center: Array, spread: Array, half_width: float, ends: Ends) -> Array:
    """Log-masses of a product of normals at integers, truncated and normalized; -inf outside.
    ``x``: ``(n, entries)``; ``spread``: deviations; ``half_width``: in units of them.
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
    """Points drawn from these masses, ``(count, entries)``."""
    columns = []
    for middle, deviation, low, high in zip(center, spread, *ends, strict=True):
        places, logs = _column(middle, deviation, half_width, low, high)
        columns.append(rng.choice(places, count, p=np.exp(logs)))
    return np.stack(columns, axis=1)


def _column(
    middle: float, deviation: float, half_width: float, least: float, greatest: float
) -> tuple[Array, Array]:
    """The integers within one truncated normal, at least the nearest one, and their log-masses."""
    reach = half_width * deviation
    low, high = math.ceil(max(middle - reach, least)), math.floor(min(middle + reach, greatest))
    nearest = float(np.clip(round(middle), least, greatest))
    places = np.arange(low, high + 1.0) if low <= high else np.array([nearest])
    logs = -0.5 * ((places - middle) / deviation) ** 2
    return places, np.asarray(logs - np.logaddexp.reduce(logs))
