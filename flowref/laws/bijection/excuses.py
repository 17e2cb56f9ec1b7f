"""Why a point need not come back: facts about it that no inverse could help, each with its words."""

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
# Images this many units apart count as the same.
FLAT = 16.0
# Multiples of the way back at which a map that goes round takes the same value, a share of it at which
# it does not, how far beside a point that is asked, and what counts as the same, relatively.
TURNS, ASIDE, BESIDE, SAME = (-1.0, 2.0, 3.0), 0.381966, 0.0137, 1e-9
# Events whose singular values are looked at, and how many times as large the smallest is where a map is
# regular.
FEW, REGULAR = 64, 1e6
# An image beyond that says little of where it came from.
ORDINARY = 1e8


class Trip(NamedTuple):
    """A call, the points that went in, what came back for them, and their images on the way."""

    call: Callable[..., Mapped]
    start: Array
    end: Array
    image: Array
    context: Array | None
    # How exactly a solver tells images, relatively.
    slack: float = 0.0


Excuses = Mapping[str, Callable[[], Array]]


def flattened(trip: Trip) -> Excuses:
    """Of any map."""
    return {"the map is flat to rounding there": partial(saturated, *trip)}


def round_trip_excuses(flow: Invertible, trip: Trip) -> Excuses:
    """Of the way there and back."""
    _, x, back, y, context, _ = trip
    return {
        **flattened(trip),
        "its image overflows on the way back": partial(overflown, back, y),
        "its inverse searches elsewhere": partial(out_of_reach, flow, x, back, context),
        "its iteration is cut off there": partial(beyond_draws, flow, x, back, y, context),
        "the map goes round": partial(goes_round, flow, x, back, context),
        "the map is singular to rounding there": partial(
            singular_to_rounding, flow, x, back, y, context
        ),
    }


def lost_latents(flow: Invertible, trip: Trip) -> Excuses:
    """Of the way back and there."""
    _, z, again, x, context, _ = trip
    return {
        **flattened(trip),
        "its image overflows on the way": partial(overflown, again, x),
        "its iteration is cut off there": partial(latent_beyond_draws, flow, z, again, context),
    }


def overflown(back: Array, image: Array) -> Array:
    """Where nothing finite comes back from an image far beyond ordinary size: exponentials on the
    way overflow at its rounding errors.
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
    """Where a point and what came back for it are far apart, and the map is flat to rounding, or to the
    accuracy of a solver, all the way between them.

    There the point is lost in the image (a sigmoid of 50), and no inverse could bring it back. A
    fold is no excuse: between two points with the same image it takes other values.
    """
    with np.errstate(invalid="ignore"):  # both may be infinite
        gap = rows_max(end - start)
    far = np.isfinite(gap) & (gap > FAR * (1 + rows_max(start))) & finite_rows(image)
    flat = far.copy()
    if not far.any():
        return flat
    contexts = None if context is None else context[far]
    # Where a map turns flat, its image is known no better than its argument: 16 units of either.
    known = FLAT * ULP * (rows_max(image[far]) + np.finfo(float).tiny) * (1 + rows_max(end[far]))
    known = np.maximum(known, slack * (1 + rows_max(image[far])))
    ways = [start[far] + share * (end[far] - start[far]) for share in (0.25, 0.5, 0.75)]
    for way in (*ways, end[far]):
        out, _ = attempt(call, way + 0.0, contexts)  # halfway to overflow it may refuse
        flat[far] &= out is not None and rows_max(out.value - image[far]) <= known
    return flat


def singular_to_rounding(
    flow: Bijection, x: Array, back: Array, y: Array, context: Array | None
) -> Array:
    """Where what came back has the same image to rounding, and at the point, though not at what came
    back, the map is singular to rounding: the image does not hold the point.

    That is what `saturated` sees along the line between the two, where one entry is lost and others do not
    depend on it.
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
    # Jacobians are dear: only where the images are the same.
    rows = rows[rows_max(again.value - y[rows]) <= units[rows]]
    if len(rows):
        try:
            here, there = (_smallest(flow, one[rows], given()) for one in (x, back))
        except Exception:  # no graph, no excuse
            return found
        found[rows] = (here * gap[rows] <= units[rows]) & (there > REGULAR * here)
    return found


def _smallest(flow: Differentiable, x: Array, context: Array | None) -> Array:
    """The smallest singular value of the Jacobian at each point."""
    matrices = flow.jacobian("forward", x + 0.0, context).astype(np.float64)
    matrices = matrices.reshape(len(x), -1, x[0].size)
    values = [np.linalg.svd(one, compute_uv=False)[-1] for one in np.nan_to_num(matrices)]
    return np.asarray(values)


def goes_round(flow: Bijection, x: Array, back: Array, context: Array | None) -> Array:
    """Where a point of an undeclared domain comes back a whole number of turns away: the map repeats
    itself with the way there as a period, as one of angles does, and its inverse gives those of one
    turn. A fold repeats itself on one side alone.
    """
    with np.errstate(invalid="ignore", over="ignore"):  # both may be infinite, or far apart
        way = back - x
    away = finite_rows(way) & (rows_max(way) > FAR * (1 + rows_max(x)))
    if flow.facts.declared or not away.any():
        return np.zeros(len(x), dtype=bool)
    contexts = None if context is None else context[away]
    # Beside the point, which may lie where a turn ends.
    start, turn = x[away] + BESIDE, way[away]
    # What an inverse of a steep map leaves of it is no part of the turn.
    whole = 2 * np.pi * np.rint(turn / (2 * np.pi))
    turn = np.where(np.abs(turn - whole) <= FAR, whole, turn)
    here, _ = attempt(flow.forward, start, contexts)

    def off(share: float) -> Array:
        there, _ = attempt(flow.forward, start + share * turn, contexts)
        if here is None or there is None:
            return np.full(len(start), np.nan)
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(rows_max(there.value - here.value) / (1 + rows_max(here.value)))

    same = np.all([off(share) <= SAME for share in (1.0, *TURNS)], axis=0)
    away[away] = same & (off(ASIDE) > FAR)
    return away
