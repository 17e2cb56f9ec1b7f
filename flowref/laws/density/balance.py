"""Samples held to the density by identities that need neither derivatives nor a support, and whose
terms are bounded: whatever the tails, means of them are normal.
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
from flowref.model.budget import means

# Directions that maps act along; steps in units of the spread, and the share of the samples that
# each map but the first is judged by.
DIRECTIONS, SHARE = 4, 0.25
# The calls that all maps together make, where of dear samples each map is given as many as these calls
# of the log-density may take: so much of what the samples took.
CALLS, OF_SAMPLES = 28, 2.0
# The log-densities that are asked for of each sample, at the least.
BALANCED = 9
# Of samples as many times the entries of an event half the others lie within their range.
WITHIN = 0.35
SHIFT, STRETCH, SHEAR = 0.5, 0.6, 0.5
# Shares of these steps, and at how many samples they are tried until as many times the terms that have to
# count will: a rough density of many entries has changed by many nats a step away.
SHARES, GLANCE, PLENTY = (1.0, 0.3, 0.1, 0.03, 0.01), 100, 2.0
# Of a few samples it takes so many for each term that is to count, in as many directions at the least.
EACH, FEWEST_DIRECTIONS = 4, 2
# A mean of fewer terms than these that count is not normal, or of half as many where another one
# confirms it; means below the second are no error.
EFFECTIVE, NEGLIGIBLE = 200, 5e-4
# Of what stands out, the share that rounding has to explain for nothing to be said.
MOSTLY = 0.5
UNSTABLE = "rounding alone moves the log-density too much where the two sides are compared"
# The standard normal quantile of 0.99: what would have been seen with that probability.
SEEN = 2.326


@requires("its distribution has atoms")
def continuous(flow: Flow) -> bool:
    """A density with respect to volume."""
    return not flow.promises.get("atoms")


comparable = full_dimensional & continuous & exact_log_det & exact_density
# Laws of samples alone ask nothing of the density.
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
    r"""Samples and density are in balance: for every one-to-one $T$, $E \min(1, r_T(x))$ over
    samples equals $E \min(1, r_{T^{-1}}(x))$, where $r_T(x) = p(T x) |\det T'(x)| / p(x)$.

    $T$ are dilations, shifts, stretches and shears in coordinates that fit the samples; $p$ counts
    as zero outside a box of other samples, and contexts are drawn. Both sides are
    $\int \min(p(x), p(Tx) |\det T'|)\,dx$, whatever the normalizer. Steps are as large as the density
    allows: a hundred samples tell where it is still comparable. Two stages at level 1e-3 each.
    With probability 0.99 it sees samples whose scale is off by 2 % in four dimensions (5 % in one),
    a shift by 0.12 spreads, or a correlation off by 0.15, where a round trip takes few operations;
    else fewer samples are drawn.
    """
    count = affordable_samples(flow, BALANCED)

    def worst(look: Look) -> Finding:
        enough = EFFECTIVE if look.index else EFFECTIVE / 2
        scores = list(_scores(flow, look.count, look.seed, enough))
        if not scores:
            raise Undecidable("too few samples stay where the density is comparable")
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
    """A mean that should be zero, its standard error, and by how much it moves with the scale of
    the samples, if that is known; ``slack``: by how much rounding may have moved it.
    """

    name: str
    mean: float
    error: float
    sensitivity: float = 0.0
    slack: Callable[[], float] = float

    def deviation(self, limit: float) -> float:
        """The mean in standard errors, less what is negligible; what rounding may have done is
        asked for beyond the limit.
        """
        size = abs(self.mean) - NEGLIGIBLE
        if size > limit * self.error:
            size = unexplained(size, self.slack(), limit * self.error)
        return max(0.0, size) / self.error

    def visible(self, limit: float) -> float:
        """The error of scale that would have been seen with probability 0.99."""
        return ((limit + SEEN) * self.error + NEGLIGIBLE) / self.sensitivity


def unexplained(size: float, slack: float, limit: float) -> float:
    """What stands out by more than rounding may have done. Raises `Undecidable` where rounding may have
    done most of it, and nothing is left.
    """
    if size - slack <= limit and slack > MOSTLY * size:
        raise Undecidable(UNSTABLE)
    return size - slack


@dataclass(frozen=True)
class Linear:
    """A map y + (y @ by + shift), affine in the frame, that its negative undoes; its log-det."""

    name: str
    forth: tuple[Array, Array]
    back: tuple[Array, Array]
    log_det: float

    def images(self, y: Array) -> tuple[Array, Array]:
        """Forth and back."""
        return y @ self.forth[0] + self.forth[1], y @ self.back[0] + self.back[1]


def _maps(size: int, rng: np.random.Generator, share: float, most: int) -> Iterator[Linear]:
    """A dilation, and maps along so many directions at most."""
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
    """How many samples are drawn, if so many log-densities are asked for of each: few where more would
    take all the time there is, and nothing be said; not of events of so many entries that hardly a sample
    lies within the range of as few others.
    """
    count = first_sample_count(flow)
    if math.prod(flow.density_shape) > WITHIN * FEWEST:
        return count
    work = call_work(flow, "sample", count + pilot(flow)) + call_work(
        flow, "log_prob", count, asked
    )
    return min(count, FEWEST) if work > means().left else count


def _sample_and_direction_counts(
    flow: SampledDensity, count: int, enough: float
) -> tuple[int, int]:
    """By how many samples each map but the first is judged, and along how many directions: of few that
    are dear by all, as far as the log-density is cheap; of few others by as many as a mean takes, along
    fewer where there are more than these.
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
    """The means of maps, those of enough terms, with steps at which the density is comparable."""
    within = sample_frame(flow, placing(flow, seed + 1, max(count, FEWEST)))
    draws = density_samples(flow, count, seed)
    # Mixtures may draw one component after the other, and shares of the samples are judged.
    order = np.random.default_rng(seed_of(seed, "order")).permutation(len(draws.flat))
    draws = draws.rows(order)
    usable = within.holds(draws.flat)
    if usable.sum() < min(
        enough, LACKING * count
    ):  # nor are there as many terms, whatever they are
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
    """Samples and their log-densities; ``rows``: those that are usable."""

    flow: SampledDensity
    within: Frame
    draws: Draws
    log_p: Array
    rows: Array


def _comparable(points: _Points, rng: np.random.Generator, enough: float) -> float | None:
    """The share of the steps at which terms of enough samples count, as some of them tell under the
    dilation: the largest with plenty, or the one with most. None where that is not enough.
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
    """The means of maps with a share of their steps."""
    rows, size = points.rows, points.draws.flat.shape[1]
    part, directions = _sample_and_direction_counts(points.flow, count, enough)
    start = 0
    for index, chosen in enumerate(_maps(size, rng, share, directions)):
        if index and part < enough:  # so few never count as many
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
    """On which side of a random plane each context lies."""
    if context is None:
        return None
    flat = context.reshape(len(context), -1)
    side = flat @ rng.standard_normal(flat.shape[1])
    return np.where(side > 0, 1.0, -1.0) if np.ptp(side) > 0 else None


class _Ratios:
    """log r_T and log r of the inverse map at some of the samples."""

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
        """min(1, r_T) less that of the inverse map, of which the mean should be zero."""
        forth, back = self.both
        return np.asarray(np.exp(np.minimum(forth, 0.0)) - np.exp(np.minimum(back, 0.0)))

    def slack(self) -> float:
        """By how much rounding may move the mean of a term."""
        points = zip([self.flat, *self.images], [self.here, *self.there], strict=True)
        here, *there = (unsettled(self.flow, x, self.context, log_p) for x, log_p in points)
        return sum(
            width(ratios, here + change) for ratios, change in zip(self.both, there, strict=True)
        )


def _enough(
    name: str, gap: Array, sensitivity: float, slack: Callable[[], float], enough: float
) -> Iterator[Score]:
    """The mean of some terms, if enough of them count for it to be normal."""
    if _effective(gap) >= enough:
        error = float(gap.std()) / math.sqrt(len(gap))
        yield Score(name, float(gap.mean()), error, sensitivity, slack)


def _effective(gap: Array) -> float:
    """How many terms count."""
    squares = gap**2
    total, fourth = float(squares.sum()), float((squares**2).sum())
    return total**2 / fourth if fourth else 0.0


def _slope(gap: Array, forth: Array, back: Array, step: float) -> float:
    """The derivative of the mean where samples are scaled by 1 + s about the middle: that of their
    log-density is (back - forth) / (2 step) in the limit of small steps.
    """
    change = np.clip(np.nan_to_num(back), -20, 20) - np.clip(np.nan_to_num(forth), -20, 20)
    return abs(float((gap * change).mean())) / (2 * step)
