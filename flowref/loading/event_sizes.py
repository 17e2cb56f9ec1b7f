"""Events of other sizes, and whether an object holds a fixed size.

A layer of images, sequences or sets may take events of any size; one that stores the size at construction
is correct at that size alone.
"""

from __future__ import annotations

import math
import types
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import combinations
from typing import Any

from flowref.model import Shape

# Depth of the search for a size in an object, and the maximal number of values.
DEPTH, MOST = 8, 20_000
# Numbers up to this one are axes, kernel sizes or halves rather than sizes.
SMALL = 4
# Names of numbers computed from a size at construction.
OF_SIZES = ("log", "ladj", "ldj", "det", "const", "dim", "size", "shape", "pixels")
# Frameworks, whose own layers reject other sizes.
FRAMEWORKS = ("torch", "jax", "jaxlib", "numpy", "equinox", "flax", "builtins", "scipy", "math")


def other_sizes(event: Shape) -> Iterator[Shape]:
    """Event shapes one and two longer along the last axis, and one longer along the axis before: other
    parity, not square. None for vectors.
    """
    if len(event) < 2:
        return
    *before, last = event
    yield (*before, last + 1)
    yield (*before, last + 2)
    if len(event) > 2:
        yield (*before[:-1], before[-1] + 1, last)


def keeps_size(obj: Any, event: Shape) -> bool:
    """Whether attributes, closures, constants or globals of an object's code hold an extent of ``event``
    (other than the first axis), a number of its entries, or a number whose name says that it was computed
    from one.
    """
    sizes = {
        math.prod(axes) for count in range(1, len(event) + 1) for axes in _extents(event, count)
    }
    return any(_is_size(name, value, sizes) for name, value in _numbers_held(obj))


def _extents(event: Shape, count: int) -> Iterator[tuple[int, ...]]:
    """The extents along ``count`` axes, the first axis alone excepted."""
    for axes in combinations(range(len(event)), count):
        if axes != (0,):
            yield tuple(event[axis] for axis in axes)


def _is_size(name: str, value: Any, sizes: set[int]) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    if isinstance(value, int):
        return value in sizes and (name != "code" or value > SMALL)
    computed = any(part in name.lower() for part in OF_SIZES)
    return value in sizes or (computed and name != "code" and value not in (0.0, 1.0))


def _numbers_held(obj: Any) -> Iterator[tuple[str, Any]]:
    waiting: list[tuple[str, Any, int]] = [("", obj, 0)]
    seen: set[int] = set()
    while waiting and len(seen) < MOST:
        name, value, depth = waiting.pop()
        if isinstance(value, (int, float)):
            yield name, value
            continue
        if id(value) in seen or depth > DEPTH:
            continue
        seen.add(id(value))
        number = _number_in(value)
        if number is not None:
            yield name, number
            continue
        waiting += [(part or name, one, depth + 1) for part, one in _contents(value)]


def _number_in(value: Any) -> Any:
    item, shape = getattr(value, "item", None), getattr(value, "shape", None)
    if not callable(item) or shape is None or math.prod(shape) != 1:
        return None
    if getattr(value, "requires_grad", False):
        return None
    return item()


def _contents(value: Any) -> Iterator[tuple[str, Any]]:
    """Entries, attributes, and what the code of a value reads."""
    if isinstance(value, (str, bytes)) or value is None:
        return
    if isinstance(value, Mapping):
        yield from ((str(name), one) for name, one in list(value.items()))
    elif isinstance(value, (tuple, list, set, frozenset)):
        yield from (("", one) for one in list(value)[:MOST])
    elif isinstance(value, partial):
        yield from (("", one) for one in (value.func, value.args, value.keywords))
    elif isinstance(value, types.MethodType):
        yield from (("", one) for one in (value.__func__, value.__self__))
    elif isinstance(value, types.FunctionType):
        yield from _numbers_in_code(value)
    elif isinstance(value, type):
        if _own(value):
            yield from vars(value).items()
    elif _own(type(value)):
        yield from vars(value).items() if hasattr(value, "__dict__") else ()
        yield from (("", one) for one in type(value).__mro__)
    elif hasattr(value, "_modules"):  # a container module
        yield from value._modules.items()


def _numbers_in_code(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    if not _own(function):
        return
    code = function.__code__
    yield from (("code", one) for one in code.co_consts if isinstance(one, (int, float)))
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not yet set
            continue
    for name in code.co_names:
        if isinstance(found := function.__globals__.get(name), (int, float, tuple)):
            yield name, found


def _own(made: Any) -> bool:
    return str(getattr(made, "__module__", "")).partition(".")[0] not in FRAMEWORKS
