"""Exemptions from the round trip: reasons why no inverse could recover a point, each with its
text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from flowref.laws.bijection.search_reach import (
    FAR,
    beyond_draws,
    latent_beyond_draws,
    out_of_reach,
)
from flowref.laws.common.arithmetic import finite_rows, rows_max
from flowref.laws.common.outcomes import attempt
from flowref.model import Array, Mapped
from flowref.model.abilities import Bijection, Differentiable, Invertible, offers

ULP = 2.0**-53
# Images this many units apart count as equal.
FLAT = 16.0
# Multiples of the displacement at which a periodic map has equal values, a fraction of it at which
# it differs, the offset of the tested point, and the relative error up to which values count as
# equal.
TURNS, ASIDE, BESIDE, SAME = (-1.0, 2.0, 3.0), 0.381966, 0.0137, 1e-9
# The largest events whose singular values are computed, and the condition number up to which a map
# is regular.
FEW, REGULAR = 64, 1e6
# Larger images hardly determine their preimage.
ORDINARY = 1e8


class Trip(NamedTuple):
    """A round trip: the call, its inputs, the recovered points, and the images in between."""

    call: Callable[..., Mapped]
    start: Array
    end: Array
    image: Array
    context: Array | None
    # Relative accuracy of a solver's images.
    slack: float = 0.0


Exemptions = Mapping[str, Callable[[], Array]]


def flattened(trip: Trip) -> Exemptions:
    """Exemptions that hold for any map."""
    return {"the map is flat to rounding there": partial(saturated, *trip)}


def round_trip_exemptions(flow: Invertible, trip: Trip) -> Exemptions:
    """Exemptions from $f^{-1}(f(x)) = x$, with their texts."""
    _, x, back, y, context, _ = trip
    return {
        **flattened(trip),
        "its image overflows on the way back": partial(overflown, back, y),
        "the search of its inverse does not reach it": partial(
            out_of_reach, flow, x, back, context
        ),
        "its iteration is cut off there": partial(beyond_draws, flow, x, back, y, context),
        "the map is periodic": partial(goes_round, flow, x, back, context),
        "the map is singular to rounding there": partial(
            singular_to_rounding, flow, x, back, y, context
        ),
    }


def lost_latents(flow: Invertible, trip: Trip) -> Exemptions:
    """Exemptions from $f(f^{-1}(z)) = z$, with their texts."""
    _, z, again, x, context, _ = trip
    return {
        **flattened(trip),
        "its image overflows on the way": partial(overflown, again, x),
        "its iteration is cut off there": partial(latent_beyond_draws, flow, z, again, context),
    }


def overflown(back: Array, image: Array) -> Array:
    """Where a very large image has no finite preimage, ``(n,)``: exponentials overflow at its
    rounding errors.
    """
    return np.asarray(~finite_rows(back) & (rows_max(image) > ORDINARY))


def saturated(
    call: Callable[..., Mapped],
    start: Array,
    end: Array,
    image: Array,
    context: Array | None,
    slack: float = 0.0,
) -> Array:
    """Where the recovered point is far from the original, and the map is flat to rounding, or to
    the accuracy of a solver, all the way between them, ``(n,)``.

    The image then does not determine the point (a sigmoid at 50). A fold is not exempt: the map
    takes other values between its two preimages.
    """
    with np.errstate(invalid="ignore"):  # both may be infinite
        gap = rows_max(end - start)
    far = np.isfinite(gap) & (gap > FAR * (1 + rows_max(start))) & finite_rows(image)
    flat = far.copy()
    if not far.any():
        return flat
    contexts = None if context is None else context[far]
    # A map that turns flat has an image no better known than its argument: 16 units of either.
    known = FLAT * ULP * (rows_max(image[far]) + np.finfo(float).tiny) * (1 + rows_max(end[far]))
    known = np.maximum(known, slack * (1 + rows_max(image[far])))
    ways = [start[far] + share * (end[far] - start[far]) for share in (0.25, 0.5, 0.75)]
    for way in (*ways, end[far]):
        out, _ = attempt(call, way + 0.0, contexts)  # halfway to overflow it may raise
        flat[far] &= out is not None and rows_max(out.value - image[far]) <= known
    return flat


def singular_to_rounding(
    flow: Bijection, x: Array, back: Array, y: Array, context: Array | None
) -> Array:
    """Where the recovered point has the same image to rounding, and the Jacobian is singular to
    rounding at the original, but not at the recovered point, ``(n,)``: the image does not
    determine the point.

    For one lost entry on which no other depends, `saturated` sees the same along the line between
    the two.
    """
    with np.errstate(invalid="ignore"):  # both may be infinite
        gap = rows_max(back - x)
    rows = np.flatnonzero(np.isfinite(gap) & (gap > FAR) & finite_rows(y) & (x[0].size <= FEW))
    found = np.zeros(len(x), dtype=bool)
    if not len(rows) or not offers(flow, Differentiable):
        return found

    def given() -> Array | None:
        return None if context is None else context[rows]

    again, _ = attempt(flow.forward, back[rows] + 0.0, given())
    if again is None:
        return found
    units = FLAT * ULP * (1 + rows_max(y))
    # Jacobians are expensive: only where the images agree.
    rows = rows[rows_max(again.value - y[rows]) <= units[rows]]
    if len(rows):
        try:
            here, there = (_smallest(flow, one[rows], given()) for one in (x, back))
        except Exception:  # without a graph, no exemption
            return found
        found[rows] = (here * gap[rows] <= units[rows]) & (there > REGULAR * here)
    return found


def _smallest(flow: Differentiable, x: Array, context: Array | None) -> Array:
    """The smallest singular value of the Jacobian per point, ``(n,)``."""
    matrices = flow.jacobian("forward", x + 0.0, context).astype(np.float64)
    matrices = matrices.reshape(len(x), -1, x[0].size)
    values = [np.linalg.svd(one, compute_uv=False)[-1] for one in np.nan_to_num(matrices)]
    return np.asarray(values)


def goes_round(flow: Bijection, x: Array, back: Array, context: Array | None) -> Array:
    """Where the recovered point of an undeclared domain differs by whole periods, ``(n,)``: the
    map has the displacement as a period, as maps of angles do. A fold repeats its values on one
    side only.
    """
    with np.errstate(invalid="ignore", over="ignore"):  # both may be infinite, or far apart
        way = back - x
    away = finite_rows(way) & (rows_max(way) > FAR * (1 + rows_max(x)))
    if flow.facts.declared or not away.any():
        return np.zeros(len(x), dtype=bool)
    contexts = None if context is None else context[away]
    # Off the point itself, which may lie at the end of a period.
    start, turn = x[away] + BESIDE, way[away]
    # Without the error that the inverse of a steep map adds to the period.
    whole = 2 * np.pi * np.rint(turn / (2 * np.pi))
    turn = np.where(np.abs(turn - whole) <= FAR, whole, turn)
    here, _ = attempt(flow.forward, start, contexts)

    def displacement(share: float) -> Array:
        there, _ = attempt(flow.forward, start + share * turn, contexts)
        if here is None or there is None:
            return np.full(len(start), np.nan)
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(rows_max(there.value - here.value) / (1 + rows_max(here.value)))

    same = np.all([displacement(share) <= SAME for share in (1.0, *TURNS)], axis=0)
    away[away] = same & (displacement(ASIDE) > FAR)
    return away
