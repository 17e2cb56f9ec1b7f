"""The reach of inverses that search: points far out of an undeclared domain need not be found."""

from __future__ import annotations

import numpy as np

from flowref.laws.common.arithmetic import rows_max
from flowref.laws.common.outcomes import attempt
from flowref.model import Array
from flowref.model.abilities import Flow, Invertible

# Relative distance from which on a point counts as not recovered.
FAR = 1e-6
# Distances that a search need not exceed without a declared domain, and beyond the draws of any
# base for both point and image if it finds points on the way, at these distances.
REACH, DRAWN, ON_THE_WAY = 500.0, 16.0, (15.0, 8.0, 4.0)


def out_of_reach(flow: Invertible, x: Array, back: Array, context: Array | None) -> Array:
    """Where a point of an undeclared domain is beyond the reach of the search, ``(n,)``: points
    farther out are returned to the same place, or rejected.
    """
    far = rows_max(x) >= REACH
    if not searches(flow) or not far.any():
        return np.zeros(len(x), dtype=bool)
    lost = np.abs(back - x) > FAR * (1 + np.abs(x))
    again = _brought_back(flow, 2 * x, context)
    same = np.isnan(again) | (np.abs(again - back) <= FAR * (1 + np.abs(back)))
    return np.asarray(far & (~lost | same).reshape(len(x), -1).all(1))


def searches(flow: Flow) -> bool:
    """Whether the inverse is a search over an undeclared domain."""
    return flow.certainty.inverse > 0 and not flow.facts.declared


def beyond_draws(flow: Invertible, x: Array, end: Array, y: Array, context: Array | None) -> Array:
    """Where a search misses a point that lies, as does its image, beyond all draws of a base, but
    recovers the points on the way there, ``(n,)``.
    """
    rows = np.flatnonzero(_missed(x, end) & (rows_max(x) >= DRAWN) & (rows_max(y) >= DRAWN))
    found = np.zeros(len(x), dtype=bool)
    if searches(flow) and len(rows):
        given = None if context is None else context[rows]
        way = [_scaled_to_size(x[rows], size) for size in ON_THE_WAY]
        found[rows] = ~np.any([_missed(at, _brought_back(flow, at, given)) for at in way], axis=0)
    return found


def latent_beyond_draws(flow: Invertible, z: Array, again: Array, context: Array | None) -> Array:
    """The same for latents ``(n, *latent)``, whose point the search does not find."""
    rows = np.flatnonzero(_missed(z, again) & (rows_max(z) >= DRAWN))
    found = np.zeros(len(z), dtype=bool)
    if searches(flow) and len(rows):
        given = None if context is None else context[rows]
        missed = []
        for size in ON_THE_WAY:
            at = _scaled_to_size(z[rows], size)
            x, _ = attempt(flow.inverse, at + 0.0, given)
            y = None if x is None else attempt(flow.forward, x.value + 0.0, given)[0]
            missed.append(_missed(at, np.full_like(at, np.nan) if y is None else y.value))
        found[rows] = ~np.any(missed, axis=0)
    return found


def _scaled_to_size(points: Array, size: float) -> Array:
    shape = (-1, *[1] * (points.ndim - 1))
    return points * (size / rows_max(points)).reshape(shape)


def _missed(points: Array, back: Array) -> Array:
    with np.errstate(invalid="ignore"):  # both may be infinite
        near = np.abs(back - points) <= FAR * (1 + np.abs(points))
    return np.asarray(~near.reshape(len(points), -1).all(1))


def _brought_back(flow: Invertible, x: Array, context: Array | None) -> Array:
    """Points after a round trip, nan where a call raises."""
    try:
        return same_shape(
            np.asarray(flow.inverse(flow.forward(x, context).value, context).value), x
        )
    except Exception:  # an iteration that gives up may reject the whole batch
        if len(x) == 1:
            return np.full_like(x, np.nan)
    rows = [slice(row, row + 1) for row in range(len(x))]
    given = [None if context is None else context[row] for row in rows]
    return np.concatenate(
        [_brought_back(flow, x[row], one) for row, one in zip(rows, given, strict=True)]
    )


def same_shape(value: Array, like: Array) -> Array:
    """The value, or nan everywhere if its shape differs from ``like``."""
    return value if value.shape == like.shape else np.full(like.shape, np.nan)
