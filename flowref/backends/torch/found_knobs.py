"""Search for a solver's number of steps or tolerance under any name: numbers that an object holds,
or literals in its methods or in plain functions of their file. Such a number is accepted if
more steps, or a smaller tolerance, take more operations, or more rows of them, and converge to
the same values.

Quadrature nodes may be made in the constructor: then the object is rebuilt with more nodes, from
its attributes named like the constructor's parameters, and keeps its own parameters. A stored time
grid is subdivided.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import types
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from flowref.backends.torch.reach import reached
from flowref.backends.torch.state import duplicate
from flowref.backends.torch.torch_float32 import Limited, Watching
from flowref.backends.torch.torch_solver_steps import named_values, refine

# Literals that may be numbers of steps: smallest, largest, and how many are tried.
LEAST, MOST, TRIED = 3, 512, 24
# The growth of operations when steps are doubled, and the largest change of values relative to
# their size.
MORE, MOVED = 1.5, 0.5
# Literals that may be tolerances. A call that takes so many times the operations, plus a constant,
# is stopped: with a wrong coefficient an adaptive solver may never end.
FINEST, COARSEST = 1e-13, 1e-2
ENDLESS, ENDLESS_FLOOR = 40, 2000
# The method whose defaults may hold the number of nodes.
MADE = "__init__"


class Knob(NamedTuple):
    """Where a solver setting is: the object, by its index among all reachable ones; the attribute;
    the method, if it is a literal in one; the plain function of the class's file; the
    constructor's parameter; and whether all objects of the class change with it. ``grid``: the
    attribute is a monotonic sequence of so many numbers.
    """

    place: int
    name: str
    method: str
    value: float
    alike: bool = False
    plain: str = ""
    parameter: str = ""
    grid: bool = False


# Refines a live object by a factor, and returns whether that was possible.
Turning = Callable[[Any, int], bool]


def find_step_knobs(
    obj: Any, call: Callable[[Any], Any], *others: Callable[[Any], Any], alike: bool = False
) -> Turning | None:
    """Returns a function that refines the solver of objects like ``obj`` in a call: by settings of
    known names, if they have an effect, or by one that is found; None if there is none. Other
    calls that these do not affect may have a setting of their own, such as an inverse with
    another solver. ``alike``: all layers of a class are refined together.
    """
    first = _turning(obj, call, alike)
    if first is None:
        return None
    turns = [first]
    for other in others:
        same = _knob_changes_result(obj, other, partial(_by_all, turns)) is False
        knob = found(obj, other, alike) if same else None
        turns += [] if knob is None else [partial(_by_number, knob)]
    return partial(_by_all, turns)


def _turning(obj: Any, call: Callable[[Any], Any], alike: bool) -> Turning | None:
    if _knob_changes_result(obj, call, _by_name):
        return _by_name
    knob = found(obj, call, alike)
    return None if knob is None else partial(_by_number, knob)


def _knob_changes_result(obj: Any, call: Callable[[Any], Any], turning: Turning) -> bool | None:
    """Whether a refined setting changes the result of a call; None if the call raises."""
    finer = duplicate(obj)
    if not turning(finer, 4):
        return False
    before, after = _count_operations(call, obj), _count_operations(call, finer)
    if before is None or after is None:
        return None
    return not (before.operations == after.operations and torch.equal(before.value, after.value))


def _by_all(turns: Sequence[Turning], obj: Any, times: int) -> bool:
    done = [one(obj, times) for one in turns]  # apply each, even if another fails
    return all(done)


def _by_name(obj: Any, times: int) -> bool:
    return bool(refine(obj, times))


def _by_number(knob: Knob, obj: Any, times: int) -> bool:
    return turn(obj, knob, times)


def found(obj: Any, call: Callable[[Any], Any], alike: bool = False) -> Knob | None:
    """The number for which twice and four times its value take as many times the operations, while
    values converge; None if there is none.
    """
    usual = _count_operations(call, obj)
    if usual is None:
        return None
    operations, rows, value = usual
    # Integers first: small floats are mostly floors of divisions, and rarely tolerances.
    candidates = sorted(_knob_candidates(obj), key=lambda knob: type(knob.value) is float)
    if alike:
        candidates = _of_each_class(obj, candidates)
    for knob in candidates[:TRIED]:
        most = ENDLESS * operations + ENDLESS_FLOOR
        finer = [_count_operations(call, _refined_copy(obj, knob, times), most) for times in (2, 4)]
        if finer[0] is None or finer[1] is None:
            continue
        once_moved, moved_again = finer[0].value, finer[1].value
        longer = finer[0].operations >= MORE * operations or finer[0].rows >= MORE * max(1, rows)
        if not longer or not once_moved.shape == moved_again.shape == value.shape:
            continue
        first = float((once_moved - value).abs().max())
        second = float((moved_again - once_moved).abs().max())
        if first <= MOVED * (1 + float(value.abs().max())) and second <= 0.75 * first + 1e-12:
            return knob
    return None


def turn(obj: Any, knob: Knob, times: int) -> bool:
    """Refines a setting of a live object by a factor; returns whether that was possible."""
    items = [item for _, item in reached(obj)]
    if knob.place >= len(items):
        return False
    kind = type(items[knob.place])
    turned = [items[knob.place]]
    if knob.alike:
        turned = [item for item in items if type(item) is kind]
    if knob.grid:
        for item in turned:
            grid = getattr(item, knob.name, None)
            if _grid_length(grid) == knob.value:
                held = vars(item).get("_buffers", {})
                finer = _subdivided_grid(grid, times)
                if knob.name in held:
                    held[knob.name] = finer
                else:
                    object.__setattr__(item, knob.name, finer)
        return True
    if knob.name:
        for item in turned:
            if getattr(item, knob.name, None) == knob.value:
                object.__setattr__(item, knob.name, _refined_number(knob.value, times))
        return True
    if knob.method == MADE:
        done = [_remade(item, knob, times) for item in turned]
        return all(done)  # rebuild each, even if another fails
    changed: dict[str, Any]
    if knob.plain:
        changed = _methods_with_refined_function(kind, knob, times)
    else:
        function = getattr(kind, knob.method, None)
        if not isinstance(function, types.FunctionType):
            return False
        changed = {knob.method: _with_refined_number(function, knob.value, times)}
    stepping = type(kind.__name__, (kind,), changed)
    for item in turned:
        item.__class__ = stepping
    return True


def _remade(item: Any, knob: Knob, times: int) -> bool:
    """Copies buffers and numbers from a module that is rebuilt with a refined number; returns
    False unless a rebuild with the usual number has the module's state.
    """
    kind: Any = type(item)
    value = knob.value
    with torch.random.fork_rng(devices=[]):
        if knob.parameter:
            kept = _made_with(item)
            usual = kind(**duplicate(kept))
            finer = kind(**duplicate(kept | {knob.parameter: _refined_number(value, times)}))
        else:
            usual, finer = kind(), kind.__new__(kind)
            _with_refined_number(kind.__init__, value, times)(finer)
    shapes = [{name: one.shape for name, one in of.state_dict().items()} for of in (usual, item)]
    sizes = [[one.shape for one in of.parameters()] for of in (usual, finer)]
    if shapes[0] != shapes[1] or sizes[0] != sizes[1]:
        return False
    owners = dict(item.named_modules())
    for name, buffer in finer.named_buffers():
        owner, _, last = name.rpartition(".")
        if usual.get_buffer(name).shape != buffer.shape:
            there = item.get_buffer(name)
            owners[owner]._buffers[last] = buffer.to(there.dtype)
    for name, number in vars(finer).items():
        if type(number) is type(value) and number != vars(usual).get(name):
            object.__setattr__(item, name, number)
    return True


def _made_with(item: Any) -> dict[str, Any]:
    """Attributes of a module that are named like its constructor's parameters."""
    names = list(inspect.signature(type(item).__init__).parameters)[1:]
    return {name: getattr(item, name) for name in names if hasattr(item, name)}


def _of_each_class(obj: Any, knobs: list[Knob]) -> list[Knob]:
    """One setting for each class of objects."""
    kinds = [type(item) for _, item in reached(obj)]
    first = {(kinds[knob.place], *knob[1:]): knob for knob in reversed(knobs)}
    return [knob._replace(alike=True) for knob in reversed(first.values())]


def _refined_copy(obj: Any, knob: Knob, times: int) -> Any:
    try:
        finer = duplicate(obj)
        return finer if turn(finer, knob, times) else None
    except Exception:  # it cannot be copied, or have another class
        return None


class OperationCount(NamedTuple):
    """The operations of a call, the most rows of its products, and its value."""

    operations: int
    rows: int
    value: torch.Tensor


def _count_operations(
    call: Callable[[Any], Any], obj: Any, most: int | None = None
) -> OperationCount | None:
    """The counts of a call; None if it raises, or takes more operations than ``most``."""
    if obj is None:
        return None
    limit = contextlib.nullcontext() if most is None else Limited(most)
    with contextlib.suppress(Exception), limit, Watching() as watching:
        value = call(obj)
        if torch.isfinite(value).all():
            return OperationCount(watching.operations, watching.rows, value.detach())
    return None


def _knob_candidates(obj: Any) -> Iterator[Knob]:
    """Numbers that may be step counts or tolerances: attributes before literals, and methods
    before plain functions.
    """
    written = []
    for place, (_, item) in enumerate(reached(obj)):
        if not hasattr(item, "__dict__") or isinstance(item, torch.Tensor | types.FunctionType):
            continue
        if _is_library_class(type(item)):
            continue
        for name, value in named_values(item).items():
            if _may_be_steps(value) or _may_be_tolerance(value):
                yield Knob(place, name, "", value)
            elif nodes := _grid_length(value):
                yield Knob(place, name, "", nodes, grid=True)
        if isinstance(item, nn.Module):
            for name, value in item._buffers.items():
                if nodes := _grid_length(value):
                    yield Knob(place, name, "", nodes, grid=True)
            written.append((place, item))
    for place, item in written:
        for name, function in _functions_of_class(type(item)).items():
            for value in sorted(_numbers_in_function(function)):
                yield Knob(place, "", name, value)
        made = vars(type(item)).get(MADE)
        if isinstance(made, types.FunctionType):
            for value in sorted(value for value in _defaults(made) if _may_be_steps(value)):
                yield Knob(place, "", MADE, value)
            for name, kept in _made_with(item).items():
                if _may_be_steps(kept):
                    yield Knob(place, "", MADE, kept, parameter=name)
    seen: set[types.FunctionType] = set()
    for place, item in written:
        for name, function in _functions_of_file(type(item)).items():
            if function not in seen:
                seen.add(function)
                for value in sorted(_numbers_in_function(function)):
                    yield Knob(place, "", "", value, plain=name)


def _is_library_class(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in ("torch", "builtins")


def _functions_of_class(kind: type) -> dict[str, types.FunctionType]:
    """The functions of a class and its bases, as written there."""
    found: dict[str, types.FunctionType] = {}
    for base in kind.__mro__:
        if not _is_library_class(base):
            for name, function in vars(base).items():
                if isinstance(function, types.FunctionType) and not name.startswith("__"):
                    found.setdefault(name, function)
    return found


def _functions_of_file(kind: type) -> dict[str, types.FunctionType]:
    """The plain functions of a file that a class's methods use, directly or indirectly."""
    names: dict[str, types.FunctionType] = {}
    waiting = list(_functions_of_class(kind).values())
    while waiting:
        function = waiting.pop()
        for name in sorted(_referenced_names(function.__code__)):
            other = function.__globals__.get(name)
            if not isinstance(other, types.FunctionType) or name in names:
                continue
            if other.__globals__ is function.__globals__:
                names[name] = other
                waiting.append(other)
    return names


def _referenced_names(code: types.CodeType) -> set[str]:
    inner = [_referenced_names(one) for one in code.co_consts if isinstance(one, types.CodeType)]
    return set(code.co_names).union(*inner)


def _may_be_steps(value: Any) -> bool:
    return type(value) is int and LEAST <= value <= MOST


def _may_be_tolerance(value: Any) -> bool:
    return type(value) is float and FINEST < value <= COARSEST


def _grid_length(value: Any) -> int:
    """The length of a monotonic sequence of numbers; 0 for other values."""
    numbers: list[Any] = []
    if isinstance(value, list | tuple):
        numbers = [*value] if all(type(one) in (int, float) for one in value) else []
    elif isinstance(value, torch.Tensor | np.ndarray) and not isinstance(value, nn.Parameter):
        numbers = value.tolist() if value.ndim == 1 and len(value) <= MOST else []
    steps = [later - earlier for earlier, later in itertools.pairwise(numbers)]
    monotone = all(step > 0 for step in steps) or all(step < 0 for step in steps)
    return len(numbers) if monotone and LEAST <= len(numbers) <= MOST else 0


def _subdivided_grid(grid: Any, times: int) -> Any:
    """A grid of the same type, with each interval divided into ``times`` parts."""
    numbers = np.asarray(grid.tolist() if isinstance(grid, torch.Tensor) else grid, dtype=float)
    places = np.arange((len(numbers) - 1) * times + 1) / times
    finer = np.interp(places, np.arange(len(numbers)), numbers)
    if isinstance(grid, torch.Tensor):
        return torch.from_numpy(finer).to(grid)
    return finer.astype(grid.dtype) if isinstance(grid, np.ndarray) else type(grid)(finer.tolist())


def _refined_number(value: float, times: int) -> float:
    """``times`` as many steps, or the tolerance that a fourth-order method then meets."""
    return max(value / times**4, FINEST) if type(value) is float else times * value


def _numbers_in_function(function: types.FunctionType) -> set[float]:
    written = [*_defaults(function), *_code_constants(function.__code__)]
    return {value for value in written if _may_be_steps(value) or _may_be_tolerance(value)}


def _defaults(function: types.FunctionType) -> list[Any]:
    return [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]


def _code_constants(code: types.CodeType) -> Iterator[Any]:
    for value in code.co_consts:
        if isinstance(value, types.CodeType):
            yield from _code_constants(value)
        else:
            yield value


def _methods_with_refined_function(
    kind: type, knob: Knob, times: int
) -> dict[str, types.FunctionType]:
    """The methods of a class, with a copy of their globals in which a plain function has another
    number.
    """
    plain, methods = _functions_of_file(kind), _functions_of_class(kind)
    changed = plain[knob.plain]
    own = dict(changed.__globals__)
    for name, function in plain.items():
        if function.__globals__ is changed.__globals__:
            same = function is not changed
            own[name] = _with_refined_number(function, knob.value, 1 if same else times, own)
    return {
        name: _with_refined_number(function, knob.value, 1, own)
        for name, function in methods.items()
        if function.__globals__ is changed.__globals__
    }


def _with_refined_number(
    function: types.FunctionType, value: float, times: int, own: dict[str, Any] | None = None
) -> types.FunctionType:
    """A function with one number replaced in its code and defaults; ``own``: its globals, if they
    are others.
    """

    def other(one: Any) -> Any:
        if isinstance(one, types.CodeType):
            return one.replace(co_consts=tuple(map(other, one.co_consts)))
        return _refined_number(one, times) if type(one) is type(value) and one == value else one

    made = types.FunctionType(
        other(function.__code__),
        function.__globals__ if own is None else own,
        function.__name__,
        tuple(map(other, function.__defaults__)) if function.__defaults__ else None,
        function.__closure__,
    )
    if function.__kwdefaults__:
        made.__kwdefaults__ = {name: other(one) for name, one in function.__kwdefaults__.items()}
    return made
