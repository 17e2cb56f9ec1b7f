"""A density is zero outside its declared support, also if only one coordinate is outside."""

from __future__ import annotations

import math

import numpy as np

from flowref.laws.common.outcomes import attempt
from flowref.laws.density.balance import comparable
from flowref.laws.density.draws import (
    SampledDensity,
    density_samples,
    first_sample_count,
    placing,
    sample_frame,
)
from flowref.laws.density.fit import Fitted
from flowref.model import (
    ADVICE,
    EXACT,
    GIVEN,
    STATISTICAL,
    VOLUME,
    Array,
    Batch,
    Residual,
    Unsupported,
    law,
    requires,
)
from flowref.model.abilities import Density, Flow

# Points around the samples that look for mass outside the support, the largest weight of one, and
# the standard errors by which the mass must deviate.
LOOKED, WEIGHT, ERRORS = 8_000, 20.0, 5.0
# The largest number of coordinates that are moved, and the step as a share of their range, or
# absolute with one end.
MOST, BEYOND = 64, 0.3


@requires("its support has no ends, or is that of angles", blocked=False)
def has_ends(flow: Flow) -> bool:
    """The support has an outside. Angles are periodic, or restricted to one period."""
    low, high = flow.density_support.ends
    angles = np.isclose(high - low, 2 * math.pi).all()
    bounded = flow.density_support.has_end and not angles
    return bounded or flow.density_support.kind == "ordered"


@law(
    "density/support",
    about=VOLUME,
    points="data",
    force=ADVICE,  # some document that points must be inside, or check them only on request
    tolerance=STATISTICAL,
    scales=GIVEN,
    size=1,
    effort=2,
    applies=has_ends & comparable,
    source="a density is zero outside its support: what it gives there is mass that no sample takes",
)
def support(flow: SampledDensity, batch: Batch) -> Residual:
    r"""Outside its declared support a density is $-\infty$ or raises: it has no more mass there
    than the share of samples that fall there.

    The mass is that of points around the samples, weighted by $p/r$, and must deviate by five
    standard errors. With probability 0.99 it detects a density that continues beyond the end of
    its support with two percent of its mass.
    """
    near = Fitted(sample_frame(flow, placing(flow, batch.seed + 1)), None)
    count = min(LOOKED, first_sample_count(flow))
    draws = density_samples(flow, count, batch.seed)
    x = near.points(np.random.default_rng(batch.seed).standard_normal(draws.flat.shape))
    shape = flow.density_shape
    outside = ~flow.density_support.holds(x.reshape(-1, *shape))
    edge = ~flow.density_support.holds(draws.flat.reshape(-1, *shape))
    contexts = None if draws.context is None else draws.context[outside]
    beyond = _beyond(flow, x[outside], contexts)
    if _repeats(flow, x[outside], contexts, beyond):
        raise Unsupported("it is periodic, as for angles", blocked=False)
    weight = np.zeros(count)
    heights = beyond - near.log_density(x[outside])
    weight[outside] = np.minimum(np.exp(np.minimum(heights, 10.0)), WEIGHT)
    gap = float(weight.mean() - edge.mean())
    error = math.sqrt((weight.var() + edge.var()) / count + 1e-8)
    return Residual(
        np.array([max(0.0, gap) / error]),
        allowed=ERRORS,
        trivial=np.array([not outside.any()]),
        observed={
            "mass outside": np.array([float(weight.mean())]),
            "share of samples outside": np.array([float(edge.mean())]),
        },
    )


def _beyond(flow: Density, flat: Array, context: Array | None) -> Array:
    """The log-density outside, ``(n,)``, -inf if it raises or is not a number."""
    if not len(flat):
        return np.zeros(0)
    x = flat.reshape(-1, *flow.density_shape)
    try:
        log_p = np.asarray(flow.log_prob(x, context), dtype=np.float64).reshape(len(x))
    except Exception:  # it rejects some of them, or all
        return np.full(len(x), -np.inf)
    return np.where(np.isnan(log_p), -np.inf, log_p)


def _repeats(flow: Density, flat: Array, context: Array | None, log_p: Array) -> bool:
    """Whether the density outside equals that one period, the width of the support, away."""
    low, high = (np.broadcast_to(end, flat.shape[1:]) for end in flow.density_support.ends)
    closed = np.isfinite(low) & np.isfinite(high)
    if not closed.any() or not np.isfinite(log_p).any():
        return False
    width = np.where(closed, high - low, 1.0)
    wrapped = np.where(closed, low + np.mod(flat - low, width), flat)
    there = _beyond(flow, wrapped, context)
    return bool(np.mean(np.abs(there - log_p)[np.isfinite(log_p)] < 1e-6) > 0.9)


@requires("its events have one entry, or its support is no box", blocked=False)
def box(flow: Flow) -> bool:
    """With a single coordinate this is density/support."""
    support = flow.density_support
    return math.prod(flow.density_shape) > 1 and not support.joint


@law(
    "density/support[each-end]",
    key="density/zero-outside-each-end",
    about=VOLUME,
    points="data",
    tolerance=EXACT,
    local=False,
    scales=GIVEN,
    effort=1,
    size=3,
    applies=has_ends & box,
    source="the indicator of a box is the product of those of its sides",
)
def zero_outside_each_end(flow: Density, batch: Batch) -> Residual:
    """If the density is zero, or raises, where all coordinates are out of range, it does so where
    only one is, for some coordinate at least.
    """
    rows, wrong = len(batch.x), np.zeros(len(batch.x))
    judged = np.zeros(rows, dtype=bool)
    for row in range(rows):
        x = batch.x[row].reshape(-1)
        context = None if batch.context is None else batch.context[row : row + 1]
        if not positive(flow, x, context):
            continue
        for outside in points_beyond_ends(flow, len(x)):
            moves = np.isfinite(outside)
            if moves.sum() < 2 or positive(flow, np.where(moves, outside, x), context):
                continue
            judged[row] = True
            each = np.flatnonzero(moves)[:MOST]
            wrong[row] += all(
                positive(flow, np.where(np.arange(len(x)) == i, outside, x), context) for i in each
            )
    if not judged.any():
        raise Unsupported(
            "it is no less where all coordinates lie beyond their ends", blocked=False
        )
    return Residual(
        wrong,
        decidable=judged,
        note="it is positive where any one coordinate lies beyond its end, and not where all do"
        if wrong.any()
        else "",
    )


def points_beyond_ends(flow: Density, size: int) -> list[Array]:
    """Points beyond the lower and the upper ends, ``(size,)`` each; nan in coordinates without an
    end.
    """
    low, high = (np.broadcast_to(end, (size,)) for end in flow.density_support.ends)
    with np.errstate(invalid="ignore"):
        step = BEYOND * np.where(np.isfinite(high - low), high - low, 1.0)
        places = (low - step, high + step)
    return [np.where(np.isfinite(one), one, np.nan) for one in places]


def positive(flow: Density, x: Array, context: Array | None) -> bool:
    """Whether the density at a point is positive."""
    out, refused = attempt(flow.log_prob, x.reshape(1, *flow.density_shape), context)
    return not refused and bool(np.isfinite(np.asarray(out, dtype=np.float64)).all())
