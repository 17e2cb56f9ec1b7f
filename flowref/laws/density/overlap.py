"""Samples compared with a density, or a lower bound of it, by the overlap of each with a normal
density: a missing constant in the log-density is detected.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from flowref.laws.common.cases import CONTEXT
from flowref.laws.common.statistics import ERRORS, Finding, critical, two_stage
from flowref.laws.density.balance import (
    NEGLIGIBLE,
    SEEN,
    affordable_samples,
    comparable,
    unexplained,
)
from flowref.laws.density.consistency import unconditional
from flowref.laws.density.draws import (
    FEWEST,
    LOST,
    MORE,
    Draws,
    Frame,
    SampledDensity,
    at_samples,
    first_sample_count,
    log_prob_at_points,
    unsettled,
    width,
)
from flowref.laws.density.fit import Fitted, fitted_density_test
from flowref.laws.density.lower_bound import DRAWS, FEWER, averaged, lower_bound_draws
from flowref.laws.density.pictures import samples_beside
from flowref.model import (
    CONTRACT,
    NEARBY,
    STATISTICAL,
    VOLUME,
    Array,
    Batch,
    Residual,
    Undecidable,
    law,
)

# Log-density evaluations per sample.
ASKED = 2
# The smallest overlap that decides; and the number of samples that an unobserved term counts for.
OVERLAP, UNMET = 0.02, 10.0
# Samples that decide whether two densities overlap at all, and the share of the smallest overlap
# below which they do not.
GLANCE, HARDLY = 200, 0.25
# The allowed difference of the means for a bound.
ALLOWED = 0.01
# Evaluations at one point that show whether rows have noise of their own.
REPEATS = 8
# The largest and smallest excess of a bound in nats that bisection reports; a larger one counts as
# undetectable.
MOST, HALVES, NOTHING = 1e4, 40, 1e3


@law(
    "sampling/follows-density",
    key="sampling/overlap",
    version=5,
    points="data",
    picture=samples_beside,
    tolerance=STATISTICAL,
    scales=NEARBY,
    size=1,
    effort=2,
    applies=comparable,
    cases=(CONTEXT,),
    source="Bennett 1976, Efficient estimation of free energy differences: the acceptance ratio",
)
def overlap(flow: SampledDensity, batch: Batch) -> Residual:
    r"""The density is normalized, and samples follow it: its overlap with a normal density $r$ is
    the same from both sides, $E_{sample} \min(1, r/p) = E_r \min(1, p/r) = \int \min(p, r)\,dx$.

    $r$ fits the samples, and is warped by their quantiles if it overlaps $p$ too little. Two
    stages at level 1e-3 each. With probability 0.99 it detects a constant of 0.02 missing from the
    log-density of a nearly normal distribution.
    """
    count = affordable_samples(flow, ASKED)
    statistic = fitted_density_test(flow, lambda *drawn: _overlaps(flow, *drawn))
    return two_stage(statistic, (count, MORE * count), batch.seed).residual()


@dataclass(frozen=True)
class _Terms:
    """log(r/p) at samples, log(p/r) at points drawn from r, and the log-density at both."""

    samples: Draws
    points: Array
    here: Array
    there: Array
    ratios: tuple[Array, Array]

    @property
    def sides(self) -> tuple[Array, Array]:
        """min(1, r/p) at samples, and min(1, p/r) at points, ``(n,)`` each."""
        theirs, own = (
            np.exp(np.minimum(np.nan_to_num(one, nan=-np.inf, posinf=0.0, neginf=-np.inf), 0.0))
            for one in self.ratios
        )
        return theirs, own

    @property
    def overlap(self) -> float:
        """The larger of their means."""
        return max(float(side.mean()) for side in self.sides)

    def slack(self, flow: SampledDensity, within: Frame) -> float:
        """The possible change of the difference of the means by rounding."""
        usable, mine = within.holds(self.samples.flat), np.zeros(len(self.here))
        few = self.samples.rows(usable)
        mine[usable] = unsettled(flow, few.flat, few.context, self.here[usable])
        beside = unsettled(flow, self.points, self.samples.context, self.there)
        theirs, own = self.ratios
        return width(theirs, mine) + width(own, beside)


def _overlaps(flow: SampledDensity, near: Fitted, draws: Draws, points: Array) -> Finding | None:
    """The difference of the two means minus rounding; None if both are too small."""
    lying = [near.within.holds(flat).mean() for flat in (draws.flat, points)]
    # Terms are at most these; after warping, few points leave the box.
    if max(lying[: 1 if near.bend else 2]) < OVERLAP:
        return None
    if len(points) > 2 * GLANCE:
        few = slice(GLANCE)
        if _terms(flow, near, draws.rows(few), points[few]).overlap < HARDLY * OVERLAP:
            return None
    found = _terms(flow, near, draws, points)
    if np.isnan(found.ratios[0]).mean() > LOST:
        raise Undecidable("the log-density of its samples is not a number")
    if found.overlap < OVERLAP:
        return None
    (theirs, own), limit = found.sides, critical(1)
    one, other = float(theirs.mean()), float(own.mean())
    error = _error(theirs, own)
    gap = abs(one - other) - NEGLIGIBLE
    if gap > limit * error:
        gap = unexplained(gap, found.slack(flow, near.within), limit * error)
    return Finding(
        max(0.0, gap) / error / limit,
        {
            "from samples": one,
            "from the normal density": other,
            "smallest constant that it could have seen": (limit + SEEN) * error / max(one, other),
        },
    )


def _error(theirs: Array, own: Array) -> float:
    """The standard error of the difference of two means of terms in [0, 1], including terms that
    no sample has met.
    """
    return math.sqrt((theirs.var() + own.var() + UNMET / len(own)) / len(own))


def _terms(flow: SampledDensity, near: Fitted, draws: Draws, points: Array) -> _Terms:
    with np.errstate(invalid="ignore"):
        known = np.where(near.within.holds(draws.flat), near.log_density(draws.flat), -np.inf)
        drawn_r = near.log_density(points)
    here = at_samples(flow, draws)
    there = log_prob_at_points(flow, points, draws.context, within=near.within)
    return _Terms(draws, points, here, there, (known - here, there - drawn_r))


class Ratios(NamedTuple):
    """log(e^V / r) at samples and at points drawn from r; nan outside the box of the samples,
    where terms are 0.
    """

    samples: Array
    points: Array

    def sides(self, higher: float = 0.0) -> tuple[Array, Array]:
        """r / (e^V + r) at samples and e^V / (e^V + r) at points, of a bound raised by ``higher``
        nats, ``(n,)`` each.
        """
        from scipy.special import expit

        inside, there = np.isfinite(self.samples), np.isfinite(self.points)
        theirs = np.where(inside, expit(-(np.nan_to_num(self.samples) + higher)), 0.0)
        own = np.where(there, expit(np.nan_to_num(self.points) + higher), 0.0)
        return theirs, own

    @property
    def excess(self) -> float:
        """The excess of the mean at points over that at samples, relative to the allowed one."""
        return max(0.0, self.excess_if_raised(0.0))

    def excess_if_raised(self, higher: float) -> float:
        """The same of a bound raised by ``higher`` nats; negative if it is lower."""
        theirs, own = self.sides(higher)
        return float(own.mean() - theirs.mean()) / (ERRORS * _error(theirs, own) + ALLOWED)

    @property
    def missed(self) -> float:
        """The smallest increase of the bound, in nats, that is detected."""
        low, high = 0.0, MOST
        for _ in range(HALVES):
            middle = (low + high) / 2
            low, high = (low, middle) if self.excess_if_raised(middle) > 1 else (middle, high)
        return high


@law(
    "sampling/follows-bound[overlap]",
    key="density/lower-bound-overlap",
    about=VOLUME,
    points="data",
    force=CONTRACT,
    promise="lower-bound",
    tolerance=STATISTICAL,
    local=False,
    scales=NEARBY,
    size=1,
    effort=2,
    applies=unconditional,
    source="Bennett 1976, Efficient estimation of free energy differences, with the logistic function; Jensen's "
    "inequality for its concave terms",
)
def lower_bound_overlap(flow: SampledDensity, batch: Batch) -> Residual:
    r"""A promised lower bound V belongs to the density of the samples: $E_r[e^V / (e^V + r)] \le
    E_{sample}[r / (e^V + r)]$ for every density $r$. Both are $\int p r / (p + r)\,dx$ if $e^V$ is
    $p$; for lower or random bounds, with $E[e^V] \le p$, the first is smaller and the second
    larger.

    $r$ is a normal density fitted to the samples, or warped to them. Two stages; violated only if
    a larger one with fresh draws confirms.
    """
    random = flow.certainty.estimate
    draws = DRAWS if random and flow.certainty.bound == "expected" else 1
    count = max(FEWEST, first_sample_count(flow) // (FEWER if draws > 1 else 1))
    statistic = fitted_density_test(flow, lambda *drawn: ratios(flow, draws, *drawn))
    found = two_stage(statistic, (count, MORE * count), batch.seed)
    (theirs, own), missed = (float(side.mean()) for side in found.sides()), found.missed
    if missed > NOTHING and found.excess <= 1:
        raise Undecidable(
            "its samples overlap too little with a normal density for a bound that is too high to be seen"
        )
    return Finding(
        found.excess,
        {"from samples": theirs, "from the normal": own},
        f"the bound exceeds what is sampled: {own:.3g} from a normal density that fits the samples "
        f"exceeds {theirs:.3g} from these",
        f"what makes it higher by less than {missed:.2g} nats is not seen"
        if found.excess <= 1
        else "",
    ).residual()


def ratios(
    flow: SampledDensity, draws: int, near: Fitted, drawn: Draws, points: Array
) -> Ratios | None:
    """The ratios at samples and at as many points; None if the two hardly overlap. Raises
    `Undecidable` if rows share noise or the bound is not finite.
    """
    samples = drawn.flat
    both = np.concatenate([samples, points])
    with np.errstate(invalid="ignore"):
        inside = near.within.holds(both)
    if not inside.any() or inside[: len(samples)].mean() < OVERLAP:
        return None
    asked = np.where(inside[:, None], both, both[inside][:1])
    if flow.certainty.estimate:
        again = lower_bound_draws(flow, np.repeat(asked[:1], REPEATS, 0), 1, 1.0)
        # Rows are independent unless all have the same noise: their mean is then that of one draw.
        if again is not None and len(np.unique(again)) == 1:
            raise Undecidable(
                "all rows of a call have the same noise: a mean over rows is one of one draw"
            )
    each = lower_bound_draws(flow, asked, draws, 1.0)
    bound = None if each is None else averaged(each)
    if bound is None or np.isnan(bound).any():
        raise Undecidable("the bound is not a number everywhere")
    # Extreme values count as zero or one.
    logs = np.clip(bound - near.log_density(asked), -MOST, MOST)
    logs[~inside] = np.nan
    found = Ratios(*np.split(logs, 2))
    return found if max(float(side.mean()) for side in found.sides()) >= OVERLAP else None
