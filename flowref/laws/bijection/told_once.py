"""The log-det that structure tells, where telling it takes long: once, and not again under noise.

Structure is verified by predictions, and by how much they are missed is the error of what it tells; so
its rounding is known without noise. Entries that are taken as they come are told again under noise,
once, for theirs.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from flowref.laws.bijection.at_size import log_det_of
from flowref.laws.common.structure import Told
from flowref.model import Array
from flowref.model.abilities import Rounded, Walked, offers

# Noise, by how much it is louder than rounding, and how many times its effect is allowed for.
NOISE = {"float64": (2.0**-43, 2.0**10, 64.0), "float32": (2.0**-24, 1.0, 32.0)}
# How near a point lies to one that was told, relative to 1 + |x|: noise moves it no farther.
NEAR = 1e-6
# Roads whose error is measured as they are taken, and what is remembered of one subject.
MEASURED, REMEMBERED = ("elementwise", "coupling", "position by position"), 4


class RoundedWalked(Walked, Rounded, Protocol):
    """A map that is taken apart, and randomly rounded."""


class Remembered(NamedTuple):
    """What was told of a call of an object at some points."""

    built: int
    which: str
    x: Array
    context: Array | None
    told: Told


_MEMORY: weakref.WeakKeyDictionary[Any, list[Remembered]] = weakref.WeakKeyDictionary()


def told_once(flow: Walked, which: str, x: Array, context: Array | None) -> Told:
    """log|det| of a call at each point, as `log_det_of` tells it; as it was told before, where that
    was at these very points.
    """
    if not (flow.facts.cost.heavy and offers(flow, RoundedWalked)):
        return log_det_of(flow, which, x, context)
    memory, rounding = _memory_of(flow.walk), flow.rounding()
    call = flow.built(), which
    for one in reversed(memory):
        there = beside(one.x, x) if rounding else np.array_equal(one.x, x)
        if (one.built, one.which) == call and alike(one.context, context) and there:
            return one.told
    told = log_det_of(flow, which, x, context)
    if rounding:
        return told
    if any(how not in MEASURED for how in _roads(told)):
        told = replace(told, error=told.error + _moved(flow, which, x, context, told))
    memory.append(Remembered(*call, x.copy(), context, told))
    del memory[:-REMEMBERED]
    return told


def beside(there: Array, x: Array) -> bool:
    """Whether points lie next to others, row by row."""
    return there.shape == x.shape and bool((np.abs(x - there) <= NEAR * (1 + np.abs(there))).all())


def alike(first: Array | None, second: Array | None) -> bool:
    """Whether contexts are the same."""
    if first is None or second is None:
        return first is second
    return np.array_equal(first, second)


def _memory_of(walk: Callable[..., bool]) -> list[Remembered]:
    try:
        return _MEMORY.setdefault(walk, [])
    except TypeError:  # it cannot be referred to
        return []


def _roads(told: Told) -> list[str]:
    """The structures by which a log-det was told."""
    _, _, kinds = told.how.rpartition(": ")
    words = [kind.strip().lstrip("0123456789 ") for kind in kinds.split(",")]
    return [word.removesuffix(", of the map that it goes back") for word in words]


def _moved(flow: RoundedWalked, which: str, x: Array, context: Array | None, told: Told) -> Array:
    """What rounding may do to what was told, ``(batch,)``."""
    magnitude, louder, factor = NOISE[flow.dtype]
    with flow.noise(1, magnitude):
        again = log_det_of(flow, which, x + 0.0, context)
    return np.asarray(factor * np.abs(again.log_det - told.log_det) / louder)
