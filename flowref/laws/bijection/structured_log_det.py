"""A cache of log|det J| from the structure of a Jacobian, reused in randomly rounded replicas if
computing it is expensive.

Structure is verified by predictions, whose deviation is the error of the log-det. Log-dets of
dense Jacobians are computed again under noise, once, for their rounding error. So are derivatives
common to all predictions before a disagreement is reported: that of a sigmoid, s (1 - s), has lost
ten digits at 25 in all of them.
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
from flowref.model.budget import current_budget

# Noise, its size relative to rounding, and the allowed multiple of its effect.
NOISE = {"float64": (2.0**-43, 2.0**10, 64.0), "float32": (2.0**-24, 1.0, 32.0)}
# Relative distance up to which a point counts as the cached one: noise moves it no farther.
NEAR = 1e-6
# Structures whose error is measured by their predictions, and the number of results cached per
# subject.
MEASURED, REMEMBERED = ("elementwise", "coupling", "position by position"), 4
# Relative gaps that need no rounding error; and the factor by which one noisy call must explain a
# gap, so that the judge's several calls will, too.
UNASKED, SAFELY = 2.0**-49, 4.0


class RoundedWalked(Walked, Rounded, Protocol):
    """A map that can be factorised into parts, and randomly rounded."""


class Remembered(NamedTuple):
    """A cached log-det of a call at some points; ``asked``: including its full rounding error."""

    built: int
    which: str
    x: Array
    context: Array | None
    result: StructuredLogDet
    asked: bool = False


_MEMORY: weakref.WeakKeyDictionary[Any, list[Remembered]] = weakref.WeakKeyDictionary()


def cached_log_det(flow: Walked, which: str, x: Array, context: Array | None) -> StructuredLogDet:
    r"""$\log|\det J|$ of a call per point, ``(n,)``, from the cache or by `log_det_at_points`."""
    if not (sparing(flow) and offers(flow, RoundedWalked)):
        return log_det_at_points(flow, which, x, context)
    memory, rounding = _memory_of(flow.walk), flow.rounding()
    found = _found(memory, flow, which, x, context)
    if found is not None:
        return found.result
    result = log_det_at_points(flow, which, x, context)
    if rounding:
        return result
    asked = _as_they_come(result)
    if asked:
        result = replace(
            result, error=result.error + _log_det_rounding_error(flow, which, x, context, result)
        )
    memory.append(Remembered(flow.built(), which, x.copy(), context, result, asked))
    del memory[:-REMEMBERED]
    return result


def log_det_by_structure(
    flow: Walked, which: str, x: Array, context: Array | None, claimed: Array
) -> StructuredLogDet:
    """The same compared with a ``claimed`` log-det, ``(n,)``: where they differ, with its full
    rounding error. One noisy evaluation underestimates that once in a hundred times; a violation
    needs another one, at a neighbouring point.
    """
    result = cached_log_det(flow, which, x, context)
    if not (sparing(flow) and offers(flow, RoundedWalked)):
        return result
    memory = _memory_of(flow.walk)
    found = _found(memory, flow, which, x, context)
    if flow.rounding() or (_as_they_come(result) if found is None else found.asked):
        return result
    gap = np.abs(claimed - result.log_det) - UNASKED * (4 + np.abs(result.log_det))
    if not (gap > result.error)[result.known].any():
        return result
    explained = _reported_moved(flow, which, x, context, claimed) / SAFELY
    if not (gap > result.error + explained)[result.known].any():
        return result  # rounding of the reported log-det is left to the judge
    current_budget().draw_on_reserve()
    grown = replace(
        result, error=result.error + _log_det_rounding_error(flow, which, x, context, result)
    )
    memory[:] = [one._replace(result=grown, asked=True) if one is found else one for one in memory]
    return grown


def _found(
    memory: list[Remembered], flow: RoundedWalked, which: str, x: Array, context: Array | None
) -> Remembered | None:
    """The cached result for these points or, under noise, for neighbouring ones."""
    rounding, call = flow.rounding(), (flow.built(), which)
    for one in reversed(memory):
        there = _are_nearby_points(one.x, x) if rounding else np.array_equal(one.x, x)
        if (one.built, one.which) == call and _same_contexts(one.context, context) and there:
            return one
    return None


def _are_nearby_points(there: Array, x: Array) -> bool:
    return there.shape == x.shape and bool((np.abs(x - there) <= NEAR * (1 + np.abs(there))).all())


def _same_contexts(first: Array | None, second: Array | None) -> bool:
    if first is None or second is None:
        return first is second
    return np.array_equal(first, second)


def _memory_of(walk: Callable[..., bool]) -> list[Remembered]:
    try:
        return _MEMORY.setdefault(walk, [])
    except TypeError:  # no weak reference is possible
        return []


def _as_they_come(result: StructuredLogDet) -> bool:
    """Whether a dense Jacobian was used."""
    return any(how not in MEASURED for how in _roads(result))


def _roads(result: StructuredLogDet) -> list[str]:
    """The structures that gave a log-det."""
    _, _, kinds = result.how.rpartition(": ")
    words = [kind.strip().lstrip("0123456789 ") for kind in kinds.split(",")]
    return [word.removesuffix(", of the map that it inverts") for word in words]


def _reported_moved(
    flow: RoundedWalked, which: str, x: Array, context: Array | None, log_det: Array
) -> Array:
    """The change of the reported log-det in one noisy call, ``(n,)``; 0 if it raises."""
    magnitude, louder, factor = NOISE[flow.dtype]
    with flow.noise(1, magnitude):
        out, error = attempt(flow.calls[which], x + 0.0, context)
        again = log_det if error else reported(flow, out, len(x))
    moved = factor * np.abs(again - log_det) / louder
    return np.asarray(np.nan_to_num(moved, nan=0.0, posinf=0.0))


def _log_det_rounding_error(
    flow: RoundedWalked, which: str, x: Array, context: Array | None, result: StructuredLogDet
) -> Array:
    """The change of the structured log-det under noise, ``(n,)``."""
    magnitude, louder, factor = NOISE[flow.dtype]
    with flow.noise(1, magnitude):
        again = log_det_at_points(flow, which, x + 0.0, context)
    return np.asarray(factor * np.abs(again.log_det - result.log_det) / louder)
