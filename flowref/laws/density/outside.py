"""A density on a box is nothing wherever one coordinate is outside, not only where all are."""

from __future__ import annotations

import math

import numpy as np

from flowref.laws.common.outcomes import attempt
from flowref.laws.density.reach import has_ends
from flowref.model import EXACT, VOLUME, Array, Batch, Residual, Unsupported, law, requires
from flowref.model.abilities import Density, Flow

# So many coordinates are moved at most, and by which share of their range, or by how much where they
# have one end.
MOST, BEYOND = 64, 0.3


@requires("its events have one entry, or its support is no box", waits=False)
def box(flow: Flow) -> bool:
    """Of one coordinate any is all."""
    support = flow.density_support
    return math.prod(flow.density_shape) > 1 and not support.joint


@law(
    "density/zero-outside-each-end",
    about=VOLUME,
    points="data",
    tolerance=EXACT,
    local=False,
    scales=(0.0,),
    effort=1,
    size=3,
    applies=has_ends & box,
    source="the indicator of a box is the product of those of its sides",
)
def zero_outside_each_end(flow: Density, batch: Batch) -> Residual:
    """A density that is zero, no number or refused where all coordinates lie beyond their ends is so
    beyond the end of one coordinate alone, of some coordinate at least: a point is outside as soon as
    one of its coordinates is.
    """
    rows, wrong = len(batch.x), np.zeros(len(batch.x))
    judged = np.zeros(rows, dtype=bool)
    for row in range(rows):
        x = batch.x[row].reshape(-1)
        context = None if batch.context is None else batch.context[row : row + 1]
        if not positive(flow, x, context):
            continue
        for outside in beyond(flow, len(x)):
            moves = np.isfinite(outside)
            if moves.sum() < 2 or positive(flow, np.where(moves, outside, x), context):
                continue
            judged[row] = True
            each = np.flatnonzero(moves)[:MOST]
            wrong[row] += all(
                positive(flow, np.where(np.arange(len(x)) == i, outside, x), context) for i in each
            )
    if not judged.any():
        raise Unsupported("it is no less where all coordinates lie beyond their ends", waits=False)
    return Residual(
        wrong,
        decidable=judged,
        note="it is positive where any one coordinate lies beyond its end, and not where all do"
        if wrong.any()
        else "",
    )


def beyond(flow: Density, size: int) -> list[Array]:
    """Places beyond the lower and the upper ends, one for each coordinate; nan where there is no end."""
    low, high = (np.broadcast_to(end, (size,)) for end in flow.density_support.ends)
    with np.errstate(invalid="ignore"):
        step = BEYOND * np.where(np.isfinite(high - low), high - low, 1.0)
        places = (low - step, high + step)
    return [np.where(np.isfinite(one), one, np.nan) for one in places]


def positive(flow: Density, x: Array, context: Array | None) -> bool:
    """Whether the density at a point is a number above 0."""
    out, refused = attempt(flow.log_prob, x.reshape(1, *flow.density_shape), context)
    return not refused and bool(np.isfinite(np.asarray(out, dtype=np.float64)).all())
