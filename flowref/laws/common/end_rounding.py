"""Ends of a domain: rounding moves points, images and samples onto an end, at which another
formula may hold, or none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flowref.laws.common.outcomes import attempt, finite_outcome_rows
from flowref.model import Array, Batch, Support
from flowref.model.abilities import Flow, Parametric

# The relative step to neighbouring points, and the number of samples that rounding may leave on an
# end per sample next to it.
BESIDE, CROWDED = 1e-6, 4.0


def representable(x: Array, domain: Support) -> Array:
    """Which points have only coordinates that single precision represents exactly, and none on an
    end of the domain, ``(n,)``.
    """
    flat = np.asarray(x, dtype=np.float64).reshape(len(x), -1)
    size, single = np.abs(flat), flat.astype(np.float32)
    on_an_end = np.any([single == np.ravel(end) for end in domain.ends], axis=0)
    tiny = (size > 0) & (size < float(np.finfo(np.float32).tiny))
    return np.asarray(~(tiny | on_an_end).any(1))


def onto_an_end(points: Array, support: Support) -> Array:
    """Which samples have an entry that rounding moved onto an end of the data, ``(n,)``: others
    lie within rounding of it, which clamped samples do not. Without a declared end, the farthest
    sample stands for it.
    """
    moved = np.zeros(points.shape, dtype=bool)
    farthest = points.min(0), points.max(0)
    for declared, last in zip(map(np.ravel, support.ends), farthest, strict=True):
        end = np.where(np.isfinite(declared), declared, last)
        with np.errstate(invalid="ignore"):
            gap = np.abs(points - end)
        at, beside = gap == 0, (gap > 0) & (gap <= BESIDE * (1 + np.abs(end)))
        moved |= at & (CROWDED * beside.sum() >= at.sum())
    return np.asarray(moved.any(1))


def is_no_end(flow: Flow, point: Batch, y: Array) -> bool:
    """Whether the image of a point differs from the image of the nearer end of the domain.
    Rounding moves images near an end onto that of the end, which may have no inverse log-det.
    """
    size, context, flat = point.x.size, point.context, point.x.reshape(-1)
    low, high = (np.broadcast_to(np.ravel(end), flat.shape) for end in flow.domain.ends)
    end = np.where(flat - low <= high - flat, low, high)
    near = np.flatnonzero(np.isfinite(end))
    if not len(near):
        return True
    ended = np.where(np.eye(size, dtype=bool)[near], end, flat).reshape(-1, *point.x.shape[1:])
    given = None if context is None else np.repeat(context, len(near), 0)
    out, refused = attempt(flow.calls["forward"], ended, given)
    if refused:
        return True
    return not (np.asarray(out.value).reshape(len(near), -1) == y.reshape(1, -1)).all(1).any()


def finite_beside(flow: Parametric, name: str, inputs: tuple[Any, ...], seed: int) -> Array:
    """Where a call is finite also slightly to both sides of its points, ``(n,)``. On an end of the
    data rounding decides from call to call whether it is, and one such row dominates a sum over
    rows.
    """
    x, *more = inputs
    sides = (x * (1 + step) + step for step in (BESIDE, -BESIDE))
    found = [_finite_at(flow, name, (side, *more), seed) for side in sides]
    return np.asarray(np.all(found, axis=0))


def _finite_at(flow: Parametric, name: str, inputs: tuple[Any, ...], seed: int) -> Array:
    """False where the call rejects a point, which is located by bisection of the batch."""
    rows = len(inputs[0])
    out, refused = attempt(flow.along, name, *inputs, seed, 0.0)
    if not refused:
        return finite_outcome_rows(out, rows)
    if rows == 1:
        return np.zeros(1, dtype=bool)
    halves = (
        tuple(one if one is None else one[part] for one in inputs)
        for part in (slice(0, rows // 2), slice(rows // 2, rows))
    )
    return np.concatenate([_finite_at(flow, name, half, seed) for half in halves])
