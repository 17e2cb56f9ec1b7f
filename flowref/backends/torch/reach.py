"""All that an object reaches, closures included, and how it is reached."""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn

from flowref.backends.closures import cells

# Objects that hold no tensors of the component's own; the walk stops at them.
OPAQUE: tuple[type, ...] = (
    str,
    bytes,
    int,
    float,
    complex,
    type,
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    torch.dtype,
    torch.device,
    torch.Generator,
    torch.Size,
    weakref.ref,
    type(None),
)
# Where a module keeps its hooks, which are no part of it.
HOOKS = ("_backward_hooks", "_forward_hooks", "_forward_pre_hooks")
# What a class or a file may keep that is trained.
KEPT = (nn.Module, torch.Tensor)


def reachable_values(item: Any) -> Iterator[tuple[str, Any]]:
    """What an item holds, each with how it is reached from there."""
    if isinstance(item, dict):
        yield from ((f"[{key!r}]", value) for key, value in item.items())
    elif isinstance(item, (list, tuple)):
        yield from ((f"[{index}]", value) for index, value in enumerate(item))
    elif isinstance(item, (set, frozenset)):
        yield from (("{...}", value) for value in item)
    elif isinstance(item, types.MethodType):
        yield from ((".__self__", item.__self__), (".__func__", item.__func__))
    elif isinstance(item, types.FunctionType):
        yield from ((f"<{name}>", one) for name, one in cells(item) if one is not None)
        yield from (("<default>", value) for value in item.__defaults__ or ())
    elif isinstance(item, functools.partial):
        yield from ((".func", item.func), (".args", item.args), (".keywords", item.keywords))
    elif hasattr(item, "__dict__") and not isinstance(item, OPAQUE):
        yield from ((f".{name}", value) for name, value in _attributes(item))
        if isinstance(item, nn.Module):
            yield from _class_layers(type(item))


def reached(
    obj: Any, held: Callable[[Any], Iterable[tuple[str, Any]]] = reachable_values
) -> Iterator[tuple[str, Any]]:
    """Everything that an object reaches by what each item holds, once, each with a path from the object."""
    seen: set[int] = set()
    stack: list[tuple[str, Any]] = [("", obj)]
    while stack:
        path, item = stack.pop()
        if id(item) in seen or isinstance(item, (types.ModuleType, type)):
            continue
        seen.add(id(item))
        yield path.lstrip("."), item
        if not isinstance(item, torch.Tensor):
            stack += [(path + step, value) for step, value in held(item)]


def _attributes(item: Any) -> Iterator[tuple[str, Any]]:
    for name, value in vars(item).items():
        if isinstance(item, nn.Module) and name in ("_parameters", "_modules", "_buffers"):
            yield from (entry for entry in value.items() if entry[1] is not None)
        elif name not in HOOKS:
            yield name, value


def _class_layers(kind: type) -> Iterator[tuple[str, Any]]:
    """Layers and tensors that a class of a user has as attributes, and that its methods name among
    the globals of their file.
    """
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] in ("torch", "builtins"):
            continue
        for name, value in vars(base).items():
            if isinstance(value, KEPT):
                yield f".{name}", value
            elif isinstance(value, types.FunctionType):
                known = value.__globals__
                named = (one for one in value.__code__.co_names if isinstance(known.get(one), KEPT))
                yield from ((f"<global {one}>", known[one]) for one in named)
