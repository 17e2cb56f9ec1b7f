"""Samples compared with the density by identities that need neither derivatives nor a support,
with bounded terms, so that their means are normal whatever the tails.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from flowref.laws.common.amounts import call_work, rows_for, stepwise
from flowref.laws.common.requirements import exact_density, exact_log_det, repeatable
from flowref.laws.common.statistics import Finding, Look, critical, two_stage
from flowref.laws.density.consistency import LACKING, full_dimensional, share_without_density
from flowref.laws.density.draws import (
    FEWEST,
    LEAST,
    MORE,
    Draws,
    Frame,
    SampledDensity,
    at_samples,
    density_samples,
    first_sample_count,
    log_prob_at_points,
    pilot,
    placing,
    sample_frame,
    unsettled,
    width,
)
from flowref.laws.density.pictures import samples_beside
from flowref.model import (
    NEARBY,
    STATISTICAL,
    Array,
    Batch,
    Residual,
    Undecidable,
    law,
    requires,
    seed_of,
)
from flowref.model.abilities import Flow
from flowref.model.budget import current_budget

# Number of directions of the maps; and the share of the samples used for each map but the first.
DIRECTIONS, SHARE = 4, 0.25
# Log-density calls of all maps together; of expensive samplers, each map gets as many samples as
# these calls may take relative to sampling.
CALLS, OF_SAMPLES = 28, 2.0
# The smallest number of log-densities per sample.
BALANCED = 9
# With this many samples per entry, half the other samples lie within their range.
WITHIN = 0.35
SHIFT, STRETCH, SHEAR = 0.5, 0.6, 0.5
# Step sizes tried on a few samples until PLENTY times the needed number of terms are effective: a
# rough density in many dimensions changes by many nats within one step.
SHARES, GLANCE, PLENTY = (1.0, 0.3, 0.1, 0.03, 0.01), 100, 2.0
# Samples needed per effective term, and the least number of directions, if samples are few.
EACH, FEWEST_DIRECTIONS = 4, 2
# Effective terms below which a mean is not normal (half as many if a second one confirms it); means
# below the second number are no error.
EFFECTIVE, NEGLIGIBLE = 200, 5e-4
# The share of a deviation that rounding must explain to leave it undecided.
MOSTLY = 0.5
UNSTABLE = "rounding alone moves the log-density too much where the two sides are compared"
# The standard normal quantile of 0.99, the probability with which an effect of the stated size is
# detected.
SEEN = 2.326


@requires("its distribution has atoms")
def continuous(flow: Flow) -> bool:
    """The distribution has a density with respect to volume."""
    return not flow.promises.get("atoms")


comparable = full_dimensional & continuous & exact_log_det & exact_density
# Laws about samples alone do not need the density.
sampled = full_dimensional & continuous & repeatable & exact_density


@law(
    "sampling/follows-density[balance]",
    key="sampling/detailed-balance",
    version=6,
    points="data",
    picture=samples_beside,
    tolerance=STATISTICAL,
    scales=NEARBY,
    size=1,
    effort=2,
    applies=comparable,
    source="detailed balance of Metropolis' algorithm; Metropolis et al. 1953, Equation of state calculations",
)
def detailed_balance(flow: SampledDensity, batch: Batch) -> Residual:
    r"""Samples and density are in balance: $E_{sample} \min(1, r_T(x)) = E_{sample} \min(1,
    r_{T^{-1}}(x))$ for every one-to-one $T$, where $r_T(x) = p(T x) |\det T'(x)| / p(x)$.

    Both sides are $\int \min(p(x), p(Tx) |\det T'|)\,dx$, whatever the normalizer. $T$ are
    dilations, shifts, stretches and shears in coordinates that fit the samples, with steps as
    large as the density allows; $p$ counts as zero outside a box of other samples, and contexts
    are drawn. Two stages at level 1e-3 each. Where a round trip takes few operations, it detects
    with probability 0.99 a scale of the samples that is off by 2 % in four dimensions (5 % in
    one), a shift by 0.12 spreads, or a correlation off by 0.15; else fewer samples are drawn.
    """
    count = affordable_samples(flow, BALANCED)

    def worst(look: Look) -> Finding:
        enough = EFFECTIVE if look.index else EFFECTIVE / 2
        scores = list(_scores(flow, look.count, look.seed, enough))
        if not scores:
            raise Undecidable("too few samples are mapped to points of comparable density")
        limit = critical(len(scores))
        deviation, top = max(
            ((score.deviation(limit), score) for score in scores), key=lambda one: one[0]
        )
        seen = next((score.visible(limit) for score in scores if score.sensitivity), math.nan)
        return Finding(
            deviation / limit,
            {
                "difference of the means": top.mean,
                "smallest error of scale that it could have seen": seen,
            },
            f"under {top.name}",
        )

    return two_stage(worst, (count, MORE * count), batch.seed).residual()


@dataclass(frozen=True)
class Score:
    """A mean that should be zero, its standard error, and its derivative in the scale of the
    samples if known; ``slack``: the possible change by rounding.
    """

    name: str
    mean: float
    error: float
    sensitivity: float = 0.0
    slack: Callable[[], float] = float

    def deviation(self, limit: float) -> float:
        """The mean in standard errors after a negligible part is removed. Rounding is evaluated
        only above ``limit``.
        """
        size = abs(self.mean) - NEGLIGIBLE
        if size > limit * self.error:
            size = unexplained(size, self.slack(), limit * self.error)
        return max(0.0, size) / self.error

    def visible(self, limit: float) -> float:
        """The error of scale that is detected with probability 0.99."""
        return ((limit + SEEN) * self.error + NEGLIGIBLE) / self.sensitivity


def unexplained(size: float, slack: float, limit: float) -> float:
    """The deviation that exceeds rounding. Raises `Undecidable` if rounding explains most of it."""
    if size - slack <= limit and slack > MOSTLY * size:
        raise Undecidable(UNSTABLE)
    return size - slack


@dataclass(frozen=True)
class Linear:
    """A map y + (y @ by + shift), affine in the frame, inverted by its negative, and its log-det."""

    name: str
    forth: tuple[Array, Array]
    back: tuple[Array, Array]
    log_det: float

    def images(self, y: Array) -> tuple[Array, Array]:
        """The images under the map and its inverse, ``(n, size)`` each."""
        return y @ self.forth[0] + self.forth[1], y @ self.back[0] + self.back[1]


def _maps(size: int, rng: np.random.Generator, share: float, most: int) -> Iterator[Linear]:
    """A dilation, and maps along at most ``most`` directions."""
    one, zero = np.eye(size), np.zeros(size)
    step = share / math.sqrt(2 * size)
    yield Linear(
        "dilation",
        (math.exp(step) * one, zero),
        (math.exp(-step) * one, zero),
        size * step,
    )
    directions = one
    if size > most:
        directions = np.linalg.qr(rng.standard_normal((size, most)))[0].T
    for u in directions:
        shift, stretch = share * SHIFT, share * STRETCH
        yield Linear("a shift", (one, shift * u), (one, -shift * u), 0.0)
        along = np.outer(u, u)
        forth, back = (one + (math.exp(s) - 1) * along for s in (stretch, -stretch))
        yield Linear("a stretch along one direction", (forth, zero), (back, zero), stretch)
    for u, v in zip(directions, np.roll(directions, 1, axis=0), strict=True):
        if len(directions) > 1:
            across = share * SHEAR * np.outer(u, v)
            yield Linear("a shear", (one + across, zero), (one - across, zero), 0.0)


def affordable_samples(flow: SampledDensity, asked: int) -> int:
    """The number of samples if ``asked`` log-densities are evaluated for each: `FEWEST` if more
    would exceed the remaining budget, unless events are so large that hardly any sample would lie
    within the range of so few others.
    """
    count = first_sample_count(flow)
    if math.prod(flow.density_shape) > WITHIN * FEWEST:
        return count
    work = call_work(flow, "sample", count + pilot(flow)) + call_work(
        flow, "log_prob", count, asked
    )
    return min(count, FEWEST) if work > current_budget().left else count


def _sample_and_direction_counts(
    flow: SampledDensity, count: int, enough: float
) -> tuple[int, int]:
    """Samples per map (but the first) and number of directions. Few, expensive samples are all
    used, as far as log-densities are cheap; otherwise a mean gets as many as it needs, along fewer
    directions.
    """
    part = max(1, int(SHARE * count))
    if stepwise(flow, "sample"):
        most = call_work(flow, "sample", count, OF_SAMPLES / CALLS)
        return max(part, min(count, rows_for(flow, "log_prob", most))), DIRECTIONS
    wanted = int(EACH * enough)
    if count < LEAST or part >= wanted:
        return part, DIRECTIONS
    fewer = max(FEWEST_DIRECTIONS, DIRECTIONS * part // wanted)
    few = math.prod(flow.density_shape) <= DIRECTIONS
    return min(count, wanted), DIRECTIONS if few else fewer


def _scores(
    flow: SampledDensity, count: int, seed: int, enough: float = EFFECTIVE
) -> Iterator[Score]:
    """The means of all maps with enough effective terms, at steps with comparable density."""
    within = sample_frame(flow, placing(flow, seed + 1, max(count, FEWEST)))
    draws = density_samples(flow, count, seed)
    # Samplers of mixtures may return component after component, and shares of the samples are
    # judged.
    order = np.random.default_rng(seed_of(seed, "order")).permutation(len(draws.flat))
    draws = draws.rows(order)
    usable = within.holds(draws.flat)
    if usable.sum() < min(enough, LACKING * count):  # nor can there be as many terms
        return
    log_p = at_samples(flow, draws)
    lost = usable & ~np.isfinite(log_p)
    if (share := share_without_density(lost, draws.flat, flow.density_support)) > LACKING:
        yield Score("no map: samples have density zero or nan", share, 1e-3)
        return
    usable &= ~lost
    rng = np.random.default_rng(seed)
    signs = _signs(draws.context, rng)
    points = _Points(flow, within, draws, log_p, np.flatnonzero(usable))
    step = _comparable(points, rng, enough)
    if step is not None:
        yield from _means(points, step, rng, signs, count, enough)


@dataclass(frozen=True)
class _Points:
    """Usable samples with their log-densities; ``rows``: their indices."""

    flow: SampledDensity
    within: Frame
    draws: Draws
    log_p: Array
    rows: Array


def _comparable(points: _Points, rng: np.random.Generator, enough: float) -> float | None:
    """The step size, estimated with the dilation, at which enough samples count: the largest with
    plenty of them, else the one with most. None if no step size suffices.
    """
    rows = points.rows[:GLANCE]
    most, chosen = enough / 2, None
    for share in SHARES if len(rows) else ():
        dilation = next(_maps(points.draws.flat.shape[1], rng, share, DIRECTIONS))
        expected = _effective(_Ratios(points, dilation, rows).gap) * len(points.rows) / len(rows)
        if expected >= PLENTY * enough:
            return share
        if expected >= most:
            most, chosen = expected, share
    return chosen


def _means(
    points: _Points,
    share: float,
    rng: np.random.Generator,
    signs: Array | None,
    count: int,
    enough: float,
) -> Iterator[Score]:
    rows, size = points.rows, points.draws.flat.shape[1]
    part, directions = _sample_and_direction_counts(points.flow, count, enough)
    start = 0
    for index, chosen in enumerate(_maps(size, rng, share, directions)):
        if index and part < enough:  # so few can never be enough
            return
        taken = rows
        if index and part < len(rows):
            taken = np.take(rows, range(start, start + part), mode="wrap")
        start += part if index else 0
        ratios = _Ratios(points, chosen, taken)
        gap = ratios.gap
        slope = 0.0 if index else _slope(gap, *ratios.both, chosen.log_det / size)
        yield from _enough(chosen.name, gap, slope, ratios.slack, enough)
        if signs is not None and chosen.name == "a shift":
            signed = gap * signs[taken]
            yield from _enough(
                "a shift that depends on the context", signed, 0.0, ratios.slack, enough
            )


def _signs(context: Array | None, rng: np.random.Generator) -> Array | None:
    """The side of a random plane on which each context lies, ``(n,)``."""
    if context is None:
        return None
    flat = context.reshape(len(context), -1)
    side = flat @ rng.standard_normal(flat.shape[1])
    return np.where(side > 0, 1.0, -1.0) if np.ptp(side) > 0 else None


class _Ratios:
    """log r_T, and log r of the inverse map, at some of the samples."""

    def __init__(self, points: _Points, chosen: Linear, taken: Array) -> None:
        self.flow, draws, within = points.flow, points.draws, points.within
        self.flat, self.here = draws.flat[taken], points.log_p[taken]
        self.context = None if draws.context is None else draws.context[taken]
        self.images = [within.outward(y) for y in chosen.images(within.inward(self.flat))]
        self.there = [
            log_prob_at_points(self.flow, x, self.context, within=within) for x in self.images
        ]
        forth, back = self.there
        self.both = forth + chosen.log_det - self.here, back - chosen.log_det - self.here

    @property
    def gap(self) -> Array:
        """min(1, r_T) minus that of the inverse map, ``(n,)``; its mean should be zero."""
        forth, back = self.both
        return np.asarray(np.exp(np.minimum(forth, 0.0)) - np.exp(np.minimum(back, 0.0)))

    def slack(self) -> float:
        """The possible change of the mean by rounding."""
        points = zip([self.flat, *self.images], [self.here, *self.there], strict=True)
        here, *there = (unsettled(self.flow, x, self.context, log_p) for x, log_p in points)
        return sum(
            width(ratios, here + change) for ratios, change in zip(self.both, there, strict=True)
        )


def _enough(
    name: str, gap: Array, sensitivity: float, slack: Callable[[], float], enough: float
) -> Iterator[Score]:
    """The mean of the terms, if enough of them count for it to be normal."""
    if _effective(gap) >= enough:
        error = float(gap.std()) / math.sqrt(len(gap))
        yield Score(name, float(gap.mean()), error, sensitivity, slack)


def _effective(gap: Array) -> float:
    """The effective number of terms."""
    squares = gap**2
    total, fourth = float(squares.sum()), float((squares**2).sum())
    return total**2 / fourth if fourth else 0.0


def _slope(gap: Array, forth: Array, back: Array, step: float) -> float:
    """The derivative of the mean under scaling of the samples by 1 + s about the middle; that of
    their log-density is (back - forth) / (2 step) as steps shrink.
    """
    change = np.clip(np.nan_to_num(back), -20, 20) - np.clip(np.nan_to_num(forth), -20, 20)
    return abs(float((gap * change).mean())) / (2 * step)
