"""Random lower bounds are trained as what they are, and row by row."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from flowref.laws.common.outcomes import attempt
from flowref.laws.common.requirements import has_parameters, in_double, true_gradients
from flowref.laws.conduct.state import not_fixed
from flowref.model import (
    BOUND,
    VOLUME,
    Array,
    Batch,
    Residual,
    Undecidable,
    Unsupported,
    law,
    requires,
)
from flowref.model.abilities import Density, Flow, Parametric

# So many points of ordinary size stand in a batch, each in so many groups of rows, of which each has a
# derivative of its own.
POINTS, GROUPS, EACH = 4, 24, 4
# From this share of what accuses on so many times as many rows decide.
CONSPICUOUS, AGAIN = 0.3, 16
ORDINARY = 4.0
# The step of differences, how well two of them have to agree, and what autograd may be off by.
STEP, AGREE, CLOSE = 1e-5, 1e-3, 1e-4
# Standard errors over groups, and the share of the mean derivative, that the mean of what autograd misses
# may have: a score that is left out on purpose is zero on average.
ERRORS, SHARE = 8.0, 0.02
# What an adaptive solver may make of another row.
COUPLED = 1e-3


class TrainedBound(Density, Parametric, Protocol):
    """A log-density of which the parameters can be moved along a direction."""


@requires("its log-density is no random lower bound")
def random_bound(flow: Flow) -> bool:
    """What is exact is held to more."""
    return bool(flow.promises.get("lower-bound")) and bool(flow.promises.get("estimator"))


@law(
    "density/bound-gradient",
    about=VOLUME,
    points="data",
    tolerance=BOUND,
    local=False,
    scales=(0.0, 0.3),
    effort=1,
    size=16,
    applies=random_bound & in_double & true_gradients & has_parameters & not_fixed,
    version=2,
    source="Kingma and Welling (arXiv:1312.6114), section 2.4: noise is held and its transform differentiated; "
    "Roeder et al. (arXiv:1703.09194): the score of the posterior may be left out, being zero on average",
)
def bound_gradient(flow: TrainedBound, batch: Batch) -> Residual:
    """Autograd's derivative of a random lower bound with respect to the parameters is on average that
    of the bound with its noise held: no sample is cut off from the parameters that it was drawn by.

    Measured along one direction of the space of all parameters, at a few points with much noise each.
    """
    chosen = ordinary(batch.x)
    for each in (EACH, AGAIN * EACH):
        recorded, measured = trained(flow, batch, chosen, each)
        gaps, size = recorded - measured, np.abs(measured).mean(1)
        mean, error = np.abs(gaps.mean(1)), gaps.std(1, ddof=1) / np.sqrt(GROUPS)
        allowed = np.maximum(ERRORS * error, np.maximum(SHARE * size, CLOSE * (1 + size)))
        if not (mean > CONSPICUOUS * allowed).any():
            break
    return Residual(
        _placed(mean, chosen, batch),
        allowed=1 + _placed(allowed - 1, chosen, batch),
        decidable=_placed(np.ones(len(chosen)), chosen, batch) > 0,
        trivial=_placed(size, chosen, batch) == 0,
        observed={
            "autograd": _placed(recorded.mean(1), chosen, batch),
            "differences": _placed(measured.mean(1), chosen, batch),
            "standard error": _placed(error, chosen, batch),
        },
    )


def trained(flow: TrainedBound, batch: Batch, chosen: Array, each: int) -> tuple[Array, Array]:
    """The derivative at the chosen points in groups of so many rows, by autograd and by differences."""
    index = np.repeat(chosen, GROUPS * each)
    context = None if batch.context is None else batch.context[index]
    inputs, rows = ("log_prob", batch.x[index], context, batch.seed), len(index)

    def moved(t: float) -> Array:
        return np.asarray(flow.along(*inputs, t).value, dtype=np.float64).reshape(rows)

    slopes, again = ((moved(h) - moved(-h)) / (2 * h) for h in (STEP, 2 * STEP))
    with np.errstate(invalid="ignore"):
        # Rows at which something is decided by noise jump; they say nothing of slopes.
        usable = np.isfinite(slopes) & (np.abs(slopes - again) <= AGREE * (1 + np.abs(slopes)))
    measured, recorded = np.zeros((2, len(chosen), GROUPS))
    for point, group in np.ndindex(len(chosen), GROUPS):
        start = (point * GROUPS + group) * each
        members = start + np.flatnonzero(usable[start : start + each])
        if not len(members):
            raise Undecidable("differences of the bound do not settle")
        weights = np.zeros(rows)
        weights[members] = 1 / len(members)
        slope, refused = attempt(flow.slope, *inputs, weights)
        if refused or not np.isfinite(slope):
            raise Unsupported(f"it cannot be differentiated here ({refused or slope})")
        measured[point, group], recorded[point, group] = slopes[members].mean(), slope
    return recorded, measured


def ordinary(x: Array) -> Array:
    """The places of a few points that are not far out: there derivatives are of one size."""
    size = np.abs(x.reshape(len(x), -1)).max(1)
    good = np.flatnonzero(np.isfinite(size) & (size <= max(ORDINARY, float(np.median(size)))))
    if not len(good):
        raise Undecidable("no point is of ordinary size")
    return good[:POINTS]


def _placed(values: Array, chosen: Array, batch: Batch) -> Array:
    out = np.zeros(len(batch.x))
    out[chosen] = values
    return out


@law(
    "density/bound-rows-independent",
    about=VOLUME,
    points="data",
    tolerance=BOUND,
    local=False,
    effort=2,
    size=16,
    applies=random_bound,
    source="Burda et al. (arXiv:1509.00519), equation 8: the average is over the samples of one point",
)
def bound_rows_independent(flow: Density, batch: Batch) -> Residual:
    """With the same noise the bound of a point is the same whatever the other points of its batch are:
    no average is over samples of several points.

    The batch keeps its size, since noise is drawn for all rows together.
    """
    rows = len(batch.x)
    if rows < 2:
        raise Undecidable("the batch has one row")
    kept = np.arange(rows) % 2 == 0
    shape = (-1, *[1] * (batch.x.ndim - 1))
    # Those in their places are points of the batch, and together not those that stood there.
    other = np.where(kept.reshape(shape), batch.x, np.roll(batch.x, 1, 0))
    here, there = (
        np.asarray(flow.log_prob(x, batch.context), dtype=np.float64).reshape(rows)
        for x in (batch.x, other)
    )
    good = kept & np.isfinite(here) & np.isfinite(there)
    return Residual(
        np.where(good, np.abs(np.where(good, here - there, 0.0)), 0.0),
        allowed=COUPLED * (1 + np.where(good, np.abs(here), 0.0)),
        decidable=good,
        observed={"beside these": here, "beside others": there},
    )
