"""Samples held to a density by how both overlap with a normal one: what is missing from the log-density is
seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from flowref.laws.density.balance import NEGLIGIBLE, SEEN, affordable, comparable, unexplained
from flowref.laws.density.consistency import critical
from flowref.laws.density.draws import (
    FEWEST,
    LOST,
    MORE,
    Draws,
    Frame,
    SampledDensity,
    at_samples,
    drawn,
    elsewhere,
    placing,
    unsettled,
    width,
)
from flowref.laws.density.fitted import Fitted, fitted
from flowref.laws.density.pictures import samples_beside
from flowref.model import STATISTICAL, Array, Batch, Residual, Undecidable, law

# The log-densities that are asked for of each sample.
ASKED = 2
# The least overlap that says something; and what was met by no sample counts for as many.
OVERLAP, UNMET = 0.02, 10.0
# So many samples show that two densities do not overlap at all: not even in this share of the least.
GLANCE, HARDLY = 200, 0.25
APART = "a normal density that fits its samples does not overlap it enough"


@law(
    "sampling/overlap",
    version=5,
    points="data",
    picture=samples_beside,
    tolerance=STATISTICAL,
    scales=(0.0, 0.3),
    size=1,
    effort=2,
    applies=comparable,
    source="Bennett 1976, Efficient estimation of free energy differences: the acceptance ratio",
)
def overlap(flow: SampledDensity, batch: Batch) -> Residual:
    r"""The density is normalized, and samples follow it: its overlap with a normal density $r$ is
    the same seen from samples and from $r$,
    $E_{sample} \min(1, r/p) = E_r \min(1, p/r) = \int \min(p, r)\,dx$.

    $r$ fits the samples; where it does not overlap $p$ enough, each entry is bent by its own quantiles.
    Two stages at level 1e-3 each. With probability 0.99 it sees a constant of
    0.02 that is missing from the log-density of a nearly normal distribution.
    """
    worst, sides, seen, bending = 0.0, (0.0, 0.0), math.nan, False
    for stage in range(2):
        count = affordable(flow, ASKED) * (MORE if stage else 1)
        seed = batch.seed + 1000 * stage
        placed = placing(flow, seed + 1, max(count, FEWEST))
        draws = drawn(flow, count, seed)
        found = None if bending else _overlaps(flow, placed, draws, seed)
        if found is None:
            found, bending = _overlaps(flow, placed, draws, seed, bending=True), True
        if found is None:
            raise Undecidable(APART)
        theirs, own, slack = found
        sides = float(theirs.mean()), float(own.mean())
        # Terms are at most one, so that what no sample has met adds no more than this.
        error = math.sqrt((theirs.var() + own.var() + UNMET / count) / count)
        gap = abs(sides[0] - sides[1]) - NEGLIGIBLE
        if gap > critical(1) * error:
            gap = unexplained(gap, slack(), critical(1) * error)
        worst = max(0.0, gap) / error / critical(1)
        seen = (critical(1) + SEEN) * error / max(sides)
        if worst <= 1:
            break
    observed = {
        "from samples": np.array([sides[0]]),
        "from the normal density": np.array([sides[1]]),
        "smallest constant that it could have seen": np.array([seen]),
    }
    return Residual(np.array([worst]), allowed=1.0, observed=observed)


@dataclass(frozen=True)
class _Terms:
    """log(r/p) at samples and log(p/r) at points drawn from r, and the log-density at both."""

    samples: Draws
    points: Array
    here: Array
    there: Array
    ratios: tuple[Array, Array]

    @property
    def sides(self) -> tuple[Array, Array]:
        """min(1, r/p) at samples, and min(1, p/r) at points."""
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
        """By how much rounding may move the difference of their means."""
        usable, mine = within.holds(self.samples.flat), np.zeros(len(self.here))
        few = self.samples.rows(usable)
        mine[usable] = unsettled(flow, few.flat, few.context, self.here[usable])
        beside = unsettled(flow, self.points, self.samples.context, self.there)
        theirs, own = self.ratios
        return width(theirs, mine) + width(own, beside)


def _overlaps(
    flow: SampledDensity, placed: Draws, draws: Draws, seed: int, bending: bool = False
) -> tuple[Array, Array, Callable[[], float]] | None:
    """min(1, r/p) at samples, and min(1, p/r) at points drawn from r; by how much rounding may move
    the difference of their means. None where both are too small. ``placed``: the samples that r fits;
    ``bending``: r is normal in coordinates that are bent.
    """
    near = fitted(flow, placed, bending)
    points = near.points(np.random.default_rng(seed).standard_normal(draws.flat.shape))
    lying = [near.within.holds(flat).mean() for flat in (draws.flat, points)]
    # Terms come to no more than these; bent to the samples, points leave their box as seldom as can be.
    if max(lying[: 1 if bending else 2]) < OVERLAP:
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
    theirs, own = found.sides
    return theirs, own, lambda: found.slack(flow, near.within)


def _terms(flow: SampledDensity, near: Fitted, draws: Draws, points: Array) -> _Terms:
    """What samples and points tell of the two densities."""
    with np.errstate(invalid="ignore"):
        known = np.where(near.within.holds(draws.flat), near.log_density(draws.flat), -np.inf)
        drawn_r = near.log_density(points)
    here = at_samples(flow, draws)
    there = elsewhere(flow, points, draws.context, within=near.within)
    return _Terms(draws, points, here, there, (known - here, there - drawn_r))
