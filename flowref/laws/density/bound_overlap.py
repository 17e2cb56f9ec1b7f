"""Lower bounds of events of many entries: held to samples by how both overlap with a normal density."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from flowref.laws.density.consistency import SampledDensity, unconditional
from flowref.laws.density.draws import FEWEST, MORE, Draws, drawn, number, placing
from flowref.laws.density.fitted import fitted
from flowref.laws.density.lower_bound import DRAWS, FEWER
from flowref.laws.density.overlap import APART, OVERLAP, UNMET
from flowref.laws.density.wider_noise import averaged, bounds
from flowref.model import CONTRACT, STATISTICAL, VOLUME, Array, Batch, Residual, Undecidable, law

# Standard errors and difference of the means that are allowed.
ERRORS, NEGLIGIBLE = 5.0, 0.01
# So many evaluations at one point show whether each row has noise of its own.
REPEATS = 8
# Nats by which a bound may be too high that are told, by halves; where so many are not seen, nothing is.
MOST, HALVES, NOTHING = 1e4, 40, 1e3


class Ratios(NamedTuple):
    """log(e^V / r) at samples and at points drawn from r; nan outside the box of the samples, where terms
    are 0.
    """

    samples: Array
    points: Array

    def sides(self, higher: float = 0.0) -> tuple[Array, Array]:
        """r / (e^V + r) at samples and e^V / (e^V + r) at points, of a bound that is so much higher."""
        from scipy.special import expit

        inside, there = np.isfinite(self.samples), np.isfinite(self.points)
        theirs = np.where(inside, expit(-(np.nan_to_num(self.samples) + higher)), 0.0)
        own = np.where(there, expit(np.nan_to_num(self.points) + higher), 0.0)
        return theirs, own

    def excess(self, higher: float = 0.0) -> float:
        """How much larger the mean at points is than that at samples, beside what is allowed."""
        theirs, own = self.sides(higher)
        # Terms are at most one, so that what no sample has met adds no more than this.
        error = math.sqrt((theirs.var() + own.var() + UNMET / len(own)) / len(own))
        return float(own.mean() - theirs.mean()) / (ERRORS * error + NEGLIGIBLE)


@law(
    "density/lower-bound-overlap",
    about=VOLUME,
    points="data",
    force=CONTRACT,
    promise="lower-bound",
    tolerance=STATISTICAL,
    local=False,
    scales=(0.0, 0.3),
    size=1,
    effort=2,
    applies=unconditional,
    source="Bennett 1976, Efficient estimation of free energy differences, with the logistic function; Jensen's "
    "inequality for its concave terms",
)
def lower_bound_overlap(flow: SampledDensity, batch: Batch) -> Residual:
    r"""A promised lower bound V is one of the density that is sampled: for every density $r$,
    $E_r[e^V / (e^V + r)] \le E_{sample}[r / (e^V + r)]$. Both are $\int p r / (p + r)\,dx$ where
    $e^V$ is $p$; lower or random ones, of which $E[e^V] \le p$, make the first smaller and the second
    larger.

    $r$ is normal and fits the samples, or is bent to them. Two stages; violated only if a larger one with
    fresh draws confirms.
    """
    random = bool(flow.promises.get("estimator"))
    draws = DRAWS if random and flow.promises["lower-bound"] == "expected" else 1
    worst, sides, unseen, bending = 0.0, (0.0, 0.0), 0.0, False
    for stage in range(2):
        count = max(FEWEST, number(flow) // (FEWER if draws > 1 else 1)) * (MORE if stage else 1)
        seed = batch.seed + 1000 * stage
        placed = placing(flow, seed + 1, max(count, FEWEST))
        samples = drawn(flow, count, seed).flat
        found = None if bending else ratios(flow, placed, samples, seed, draws)
        if found is None:
            found, bending = ratios(flow, placed, samples, seed, draws, bending=True), True
        if found is None:
            raise Undecidable(APART)
        theirs, own = found.sides()
        worst, sides = max(0.0, found.excess()), (float(theirs.mean()), float(own.mean()))
        unseen = missed(found)
        if worst <= 1:
            break
    return Residual(
        np.array([worst]),
        allowed=1.0,
        trivial=np.array([unseen > NOTHING]),
        observed={"from samples": np.array([sides[0]]), "from the normal": np.array([sides[1]])},
        note=f"the bound exceeds what is sampled: {sides[1]:.3g} from a normal density that fits the samples "
        f"exceeds {sides[0]:.3g} from these"
        if worst > 1
        else "",
        road=f"what makes it higher by less than {unseen:.2g} nats is not seen"
        if worst <= 1
        else "",
    )


def ratios(
    flow: SampledDensity,
    placed: Draws,
    samples: Array,
    seed: int,
    draws: int,
    bending: bool = False,
) -> Ratios | None:
    """Of as many samples as points; None where the two hardly overlap. ``placed``: the samples that r fits.
    Raises `Undecidable` where nothing can be said.
    """
    near = fitted(flow, placed, bending)
    points = near.points(np.random.default_rng(seed).standard_normal(samples.shape))
    both = np.concatenate([samples, points])
    with np.errstate(invalid="ignore"):
        inside = near.within.holds(both)
    if not inside.any() or inside[: len(samples)].mean() < OVERLAP:
        return None
    asked = np.where(inside[:, None], both, both[inside][:1])
    if flow.promises.get("estimator"):
        refuse_shared_noise(flow, asked[:1])
    drawn_bounds = bounds(flow, asked, draws, 1.0)
    bound = averaged(drawn_bounds) if drawn_bounds is not None else np.array([math.nan])
    if np.isnan(bound).any():
        raise Undecidable("the bound is not a number everywhere")
    # What is as low as that counts for nothing, and what is as high for all.
    logs = np.clip(bound - near.log_density(asked), -MOST, MOST)
    logs[~inside] = np.nan
    found = Ratios(logs[: len(samples)], logs[len(samples) :])
    return found if max(float(side.mean()) for side in found.sides()) >= OVERLAP else None


def refuse_shared_noise(flow: SampledDensity, point: Array) -> None:
    """Rows are independent, unless all of them have the same noise: then their mean is that of one draw."""
    again = bounds(flow, np.repeat(point, REPEATS, 0), 1, 1.0)
    if again is not None and len(np.unique(again)) == 1:
        raise Undecidable(
            "all rows of a call have the same noise: a mean over rows is one of one draw"
        )


def missed(found: Ratios) -> float:
    """By how many nats a bound may be higher before this is seen."""
    low, high = 0.0, MOST
    for _ in range(HALVES):
        middle = (low + high) / 2
        low, high = (low, middle) if found.excess(middle) > 1 else (middle, high)
    return high
