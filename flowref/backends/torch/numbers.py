"""The numbers that an object holds: a formula may change at any of them, whatever its name."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, TypeGuard

import torch
from torch import nn

from flowref.backends.closures import cells

# Tensors with at most so many entries are bounds, knots or scales; larger ones are weights.
SMALL = 16
# Packages whose code is not searched.
FOREIGN = ("torch", "numpy", "builtins", "math", "abc", "typing", "collections", "functools")
# The number of objects searched, and the depth of nested functions.
OBJECTS, DEPTH = 500, 3


def numbers_of(obj: Any) -> tuple[float, ...]:
    """Distinct scalars of an object: attributes, literals in its classes' code, in functions that
    it holds and in functions of their module that they use, then entries of small buffers and
    of small parameters.
    """
    attributes: list[float] = []
    literals: list[float] = []
    buffers: list[float] = []
    parameters: list[float] = []
    seen: set[int] = set()
    stack: list[Any] = [obj]
    while stack and len(seen) < OBJECTS:
        item = stack.pop(0)
        if id(item) in seen or isinstance(item, (str, bytes, types.ModuleType)):
            continue
        seen.add(id(item))
        if isinstance(item, bool) or item is None:
            continue
        if isinstance(item, (int, float)):
            attributes.append(float(item))
        elif isinstance(item, torch.Tensor):
            kept = parameters if isinstance(item, nn.Parameter) else buffers
            kept += _tensor_numbers(item)
        elif isinstance(item, dict):
            stack += list(item.values())
        elif isinstance(item, (list, tuple, set, frozenset)):
            stack += iter(item)  # some tuples raise if asked for their length
        elif isinstance(item, types.MethodType):
            stack += [item.__self__, item.__func__]
        elif isinstance(item, types.FunctionType):
            literals += _literals(item)
            stack += [
                *(item.__defaults__ or ()),
                *(inner for _, inner in cells(item)),
                *_referenced_functions(item),
            ]
        elif not isinstance(item, type) and hasattr(item, "__dict__"):
            stack += [value for name, value in vars(item).items() if name not in OWN_OF_MODULES]
            for member in _user_methods(type(item)):
                literals += _literals(member)
                stack += _referenced_functions(member)
    every = (*attributes, *literals, *buffers, *parameters)
    return tuple(dict.fromkeys(number for number in every if abs(number) <= 1e6))


OWN_OF_MODULES = frozenset(vars(nn.Module())) - {"_parameters", "_buffers", "_modules"}


def _tensor_numbers(tensor: torch.Tensor) -> list[float]:
    if tensor.numel() > SMALL or not (tensor.is_floating_point() or tensor.dtype == torch.int64):
        return []
    return [float(value) for value in tensor.detach().double().reshape(-1)]


def _user_methods(kind: type) -> Iterator[types.FunctionType]:
    """The functions of an object's classes, without those of common bases."""
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] in FOREIGN:
            continue
        for member in vars(base).values():
            function = getattr(member, "__func__", getattr(member, "fget", member))
            if isinstance(function, types.FunctionType) and function.__name__ != "__init__":
                yield function


def _literals(function: types.FunctionType) -> list[float]:
    """Numbers in the code of a function and of nested ones, and module constants that it uses."""
    found: list[float] = []
    codes = [function.__code__]
    for _ in range(DEPTH):
        inner = [c for code in codes for c in code.co_consts if isinstance(c, types.CodeType)]
        for code in codes:
            found += [
                float(value) for value in _flattened_constants(code.co_consts) if _number(value)
            ]
            named = (function.__globals__.get(name) for name in code.co_names)
            found += [float(value) for value in named if _number(value)]
        codes = inner
    return found


def _flattened_constants(constants: tuple[Any, ...]) -> Iterator[Any]:
    """The constants of a code, with those inside tuples: ``bound, bins = 2.5, 6``."""
    for value in constants:
        yield from _flattened_constants(value) if isinstance(value, tuple) else (value,)


def _referenced_functions(function: types.FunctionType) -> list[Any]:
    """The functions of the same module that a function, or a nested one, names: a method may leave
    its formula to one.
    """
    home, codes, named = function.__globals__, [function.__code__], list[Any]()
    for code in codes:
        named += [home.get(name) for name in code.co_names]
        codes += [inner for inner in code.co_consts if isinstance(inner, types.CodeType)]
    return [one for one in named if isinstance(one, types.FunctionType) and one.__globals__ is home]


def _number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
