"""The log-det that structure tells, where telling it takes long: once, and not again under noise.

Structure is verified by predictions, and by how much they are missed is the error of what it tells. Entries
that are taken as they come are told again under noise, once, for their rounding. So is a derivative that
every prediction shares before what was reported is held against it: that of a sigmoid, s (1 - s), has
lost ten digits at 25, and is the same in all of them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from flowref.laws.bijection.at_size import log_det_at_points
from flowref.laws.common.amounts import sparing
from flowref.laws.common.arithmetic import reported
from flowref.laws.common.outcomes import attempt
from flowref.laws.common.structure import StructuredLogDet
from flowref.model import Array
from flowref.model.abilities import Rounded, Walked, offers
from flowref.model.budget import means

# Noise, by how much it is louder than rounding, and how many times its effect is allowed for.
NOISE = {"float64": (2.0**-43, 2.0**10, 64.0), "float32": (2.0**-24, 1.0, 32.0)}
# How near a point lies to one that was told, relative to 1 + |x|: noise moves it no farther.
NEAR = 1e-6
# Roads whose error is measured as they are taken, and what is remembered of one subject.
MEASURED, REMEMBERED = ("elementwise", "coupling", "position by position"), 4
# A gap of so little, relatively, is not asked about; nor one that a single noisy call explains so many
# times over: the several that judge it will do so, too.
UNASKED, SAFELY = 2.0**-49, 4.0


class RoundedWalked(Walked, Rounded, Protocol):
    """A map that is taken apart, and randomly rounded."""


class Remembered(NamedTuple):
    """What was told of a call of an object at some points; ``asked``: whether with all its rounding."""

    built: int
    which: str
    x: Array
    context: Array | None
    told: StructuredLogDet
    asked: bool = False


_MEMORY: weakref.WeakKeyDictionary[Any, list[Remembered]] = weakref.WeakKeyDictionary()


def told_once(flow: Walked, which: str, x: Array, context: Array | None) -> StructuredLogDet:
    """log|det| of a call at each point, as `log_det_at_points` tells it; as it was told before, where that
    was at these very points.
    """
    if not (sparing(flow) and offers(flow, RoundedWalked)):
        return log_det_at_points(flow, which, x, context)
    memory, rounding = _memory_of(flow.walk), flow.rounding()
    found = _found(memory, flow, which, x, context)
    if found is not None:
        return found.told
    told = log_det_at_points(flow, which, x, context)
    if rounding:
        return told
    asked = _as_they_come(told)
    if asked:
        told = replace(
            told, error=told.error + _log_det_rounding_error(flow, which, x, context, told)
        )
    memory.append(Remembered(flow.built(), which, x.copy(), context, told, asked))
    del memory[:-REMEMBERED]
    return told


def told_against(
    flow: Walked, which: str, x: Array, context: Array | None, claimed: Array
) -> StructuredLogDet:
    """The same where a log-det was reported, ``(batch,)``: if that is another one, with the rounding of
    all that was told. One telling under noise finds too little of it once in a hundred times; an
    accusation needs another one, beside the point.
    """
    told = told_once(flow, which, x, context)
    if not (sparing(flow) and offers(flow, RoundedWalked)):
        return told
    memory = _memory_of(flow.walk)
    found = _found(memory, flow, which, x, context)
    if flow.rounding() or (_as_they_come(told) if found is None else found.asked):
        return told
    gap = np.abs(claimed - told.log_det) - UNASKED * (4 + np.abs(told.log_det))
    if not (gap > told.error)[told.known].any():
        return told
    explained = _reported_moved(flow, which, x, context, claimed) / SAFELY
    if not (gap > told.error + explained)[told.known].any():
        return told  # the rounding of what was reported is the judge's affair
    means().draw_on_reserve()
    grown = replace(told, error=told.error + _log_det_rounding_error(flow, which, x, context, told))
    memory[:] = [one._replace(told=grown, asked=True) if one is found else one for one in memory]
    return grown


def _found(
    memory: list[Remembered], flow: RoundedWalked, which: str, x: Array, context: Array | None
) -> Remembered | None:
    """What was told of a call at these points, or, under noise, beside them."""
    rounding, call = flow.rounding(), (flow.built(), which)
    for one in reversed(memory):
        there = are_nearby_points(one.x, x) if rounding else np.array_equal(one.x, x)
        if (one.built, one.which) == call and same_contexts(one.context, context) and there:
            return one
    return None


def are_nearby_points(there: Array, x: Array) -> bool:
    """Whether points lie next to others, row by row."""
    return there.shape == x.shape and bool((np.abs(x - there) <= NEAR * (1 + np.abs(there))).all())


def same_contexts(first: Array | None, second: Array | None) -> bool:
    """Whether contexts are the same."""
    if first is None or second is None:
        return first is second
    return np.array_equal(first, second)


def _memory_of(walk: Callable[..., bool]) -> list[Remembered]:
    try:
        return _MEMORY.setdefault(walk, [])
    except TypeError:  # it cannot be referred to
        return []


def _as_they_come(told: StructuredLogDet) -> bool:
    """Whether any entries were taken so."""
    return any(how not in MEASURED for how in _roads(told))


def _roads(told: StructuredLogDet) -> list[str]:
    """The structures by which a log-det was told."""
    _, _, kinds = told.how.rpartition(": ")
    words = [kind.strip().lstrip("0123456789 ") for kind in kinds.split(",")]
    return [word.removesuffix(", of the map that it goes back") for word in words]


def _reported_moved(
    flow: RoundedWalked, which: str, x: Array, context: Array | None, log_det: Array
) -> Array:
    """What rounding may do to what was reported, ``(batch,)``, by one call; 0 where it is refused."""
    magnitude, louder, factor = NOISE[flow.dtype]
    with flow.noise(1, magnitude):
        out, error = attempt(flow.calls[which], x + 0.0, context)
        again = log_det if error else reported(flow, out, len(x))
    moved = factor * np.abs(again - log_det) / louder
    return np.asarray(np.nan_to_num(moved, nan=0.0, posinf=0.0))


def _log_det_rounding_error(
    flow: RoundedWalked, which: str, x: Array, context: Array | None, told: StructuredLogDet
) -> Array:
    """What rounding may do to what was told, ``(batch,)``."""
    magnitude, louder, factor = NOISE[flow.dtype]
    with flow.noise(1, magnitude):
        again = log_det_at_points(flow, which, x + 0.0, context)
    return np.asarray(factor * np.abs(again.log_det - told.log_det) / louder)
