"""All values reachable from an object, closures included, with their paths."""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn

from flowref.backends.closures import cells

# Objects without tensors of the component; the search stops at them.
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
# The attributes of a module's hooks, which are not part of it.
HOOKS = ("_backward_hooks", "_forward_hooks", "_forward_pre_hooks")
# Values of classes and files that may be trained.
KEPT = (nn.Module, torch.Tensor)


def reachable_values(item: Any) -> Iterator[tuple[str, Any]]:
    """Yields (path step, value) for the values that an item holds."""
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
    """Yields (path, value) for everything reachable from an object, once each; ``held`` lists the
    values of an item.
    """
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
    """Layers and tensors that are attributes of a user's class, or globals of its file that its
    methods name.
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
