"""Steps of a solver that stand under no name: whole numbers that an object holds, or that are written in
its methods, of which more take more operations and lead to the same values.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from flowref.backends.torch.narrowing import Watching
from flowref.backends.torch.reach import reached
from flowref.backends.torch.refining import refine
from flowref.backends.torch.state import duplicate

# Numbers of steps as they are written; how many of them are tried.
LEAST, MOST, TRIED = 3, 512, 24
# By how much operations grow as steps are doubled; and how far values may move, beside their size.
MORE, MOVED = 1.5, 0.5


class Knob(NamedTuple):
    """Where a number stands: of which object on the way through all that is reached, under which name,
    and in which method, if it is written there; and whether all objects of its class are turned with it.
    """

    place: int
    name: str
    method: str
    value: int
    alike: bool = False


# Lets a live object take so many times the steps, and says whether it could be done.
Turning = Callable[[Any, int], bool]


def turning(
    obj: Any, call: Callable[[Any], Any], *others: Callable[[Any], Any], alike: bool = False
) -> Turning | None:
    """How objects like one take more steps in a call: by knobs of known names, if these do anything, or
    by one that is found; None where there is none. Another call that these leave as it is may have one
    of its own, as of an inverse that takes other steps. ``alike``: all layers of a class take more together.
    """
    first = _turning(obj, call, alike)
    if first is None:
        return None
    turns = [first]
    for other in others:
        same = _changes(obj, other, partial(_by_all, turns)) is False
        knob = found(obj, other, alike) if same else None
        turns += [] if knob is None else [partial(_by_number, knob)]
    return partial(_by_all, turns)


def _turning(obj: Any, call: Callable[[Any], Any], alike: bool) -> Turning | None:
    changes = _changes(obj, call, _by_name)
    if changes is None:
        return None
    if changes:
        return _by_name
    knob = found(obj, call, alike)
    return None if knob is None else partial(_by_number, knob)


def _changes(obj: Any, call: Callable[[Any], Any], turning: Turning) -> bool | None:
    """Whether a call comes out another one with a knob turned; None where it raises."""
    finer = duplicate(obj)
    if not turning(finer, 4):
        return False
    before, after = _counted(call, obj), _counted(call, finer)
    if before is None or after is None:
        return None
    return not (before[0] == after[0] and torch.equal(before[1], after[1]))


def _by_all(turns: Sequence[Turning], obj: Any, times: int) -> bool:
    done = [one(obj, times) for one in turns]  # each is turned, whatever another says
    return all(done)


def _by_name(obj: Any, times: int) -> bool:
    return bool(refine(obj, times))


def _by_number(knob: Knob, obj: Any, times: int) -> bool:
    return turn(obj, knob, times)


def found(obj: Any, call: Callable[[Any], Any], alike: bool = False) -> Knob | None:
    """The number of which twice and four times as many let a call take as much longer, and let its value
    settle; None where there is none.
    """
    usual = _counted(call, obj)
    if usual is None:
        return None
    operations, value = usual
    candidates = list(_candidates(obj))
    if alike:
        candidates = _of_each_class(obj, candidates)
    for knob in candidates[:TRIED]:
        finer = [
            _counted(call, turned) for turned in (_turned(obj, knob, 2), _turned(obj, knob, 4))
        ]
        if finer[0] is None or finer[1] is None:
            continue
        (twice, once_moved), (_, moved_again) = finer[0], finer[1]
        if twice < MORE * operations or not once_moved.shape == moved_again.shape == value.shape:
            continue
        first = float((once_moved - value).abs().max())
        second = float((moved_again - once_moved).abs().max())
        if first <= MOVED * (1 + float(value.abs().max())) and second <= 0.75 * first + 1e-12:
            return knob
    return None


def turn(obj: Any, knob: Knob, times: int) -> bool:
    """Let a live object take so many times the steps; whether it could be."""
    items = [item for _, item in reached(obj)]
    if knob.place >= len(items):
        return False
    kind = type(items[knob.place])
    turned = [items[knob.place]]
    if knob.alike:
        turned = [item for item in items if type(item) is kind]
    if not knob.method:
        for item in turned:
            if vars(item).get(knob.name) == knob.value:
                object.__setattr__(item, knob.name, times * knob.value)
        return True
    function = getattr(kind, knob.method, None)
    if not isinstance(function, types.FunctionType):
        return False
    stepping = type(kind.__name__, (kind,), {knob.method: _with(function, knob.value, times)})
    for item in turned:
        item.__class__ = stepping
    return True


def _of_each_class(obj: Any, knobs: list[Knob]) -> list[Knob]:
    """Of the knobs that all objects of a class have, one."""
    kinds = [type(item) for _, item in reached(obj)]
    first = {(kinds[knob.place], *knob[1:]): knob for knob in reversed(knobs)}
    return [knob._replace(alike=True) for knob in reversed(first.values())]


def _turned(obj: Any, knob: Knob, times: int) -> Any:
    try:
        finer = duplicate(obj)
        return finer if turn(finer, knob, times) else None
    except Exception:  # it cannot be copied, or not be of another class
        return None


def _counted(call: Callable[[Any], Any], obj: Any) -> tuple[int, torch.Tensor] | None:
    """The operations of a call, and what it gives; None where it raises."""
    if obj is None:
        return None
    with contextlib.suppress(Exception), Watching() as watching:
        value = call(obj)
        if torch.isfinite(value).all():
            return watching.operations, value.detach()
    return None


def _candidates(obj: Any) -> Iterator[Knob]:
    """Whole numbers of the size of numbers of steps, those that are held before those that are written."""
    written = []
    for place, (_, item) in enumerate(reached(obj)):
        if not hasattr(item, "__dict__") or isinstance(item, torch.Tensor | types.FunctionType):
            continue
        if type(item).__module__.partition(".")[0] in ("torch", "builtins"):
            continue
        for name, value in vars(item).items():
            if _counts(value):
                yield Knob(place, name, "", value)
        if isinstance(item, nn.Module):
            written.append((place, item))
    for place, item in written:
        for base in type(item).__mro__:
            if base.__module__.partition(".")[0] in ("torch", "builtins"):
                continue
            for name, function in vars(base).items():
                if isinstance(function, types.FunctionType) and not name.startswith("__"):
                    for value in sorted(_numbers(function)):
                        yield Knob(place, "", name, value)


def _counts(value: Any) -> bool:
    return type(value) is int and LEAST <= value <= MOST


def _numbers(function: types.FunctionType) -> set[int]:
    """The numbers in a function, in those within it, and in its defaults."""
    values = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return {value for value in [*values, *_constants(function.__code__)] if _counts(value)}


def _constants(code: types.CodeType) -> Iterator[Any]:
    for value in code.co_consts:
        if isinstance(value, types.CodeType):
            yield from _constants(value)
        else:
            yield value


def _with(function: types.FunctionType, value: int, times: int) -> types.FunctionType:
    """A function with another number in the place of one, wherever that stands in it."""

    def other(one: Any) -> Any:
        if isinstance(one, types.CodeType):
            return one.replace(co_consts=tuple(map(other, one.co_consts)))
        return times * one if type(one) is int and one == value else one

    made = types.FunctionType(
        other(function.__code__),
        function.__globals__,
        function.__name__,
        tuple(map(other, function.__defaults__)) if function.__defaults__ else None,
        function.__closure__,
    )
    if function.__kwdefaults__:
        made.__kwdefaults__ = {name: other(one) for name, one in function.__kwdefaults__.items()}
    return made
