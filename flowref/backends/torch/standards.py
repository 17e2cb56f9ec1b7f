"""Buffers for the standardization of data that are unset until a method of the object sets them."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import torch

# Names of buffers that start at zero, and of those that start at one.
CENTER = re.compile(r"(^|_)(mean|mu|loc|shift|offset|center|min(imum)?)$")
SPREAD = re.compile(r"(^|_)(std|stds|stdev|sd|sigma|scale|std_dev)$")
# The largest move: data have centers and spreads of this size.
FAR = 0.3


def set_standards(obj: Any, scale: float, seed: int) -> None:
    """Sets standardization buffers that are zero or one as built to other numbers, in place."""
    generator = torch.Generator().manual_seed(seed)
    far = min(scale, FAR)
    with torch.no_grad():
        for buffer, centers in _unset(obj):
            drawn = torch.randn(buffer.shape, generator=generator, dtype=torch.float64)
            moved = (far * drawn).to(buffer.dtype)
            buffer.copy_(moved if centers else moved.exp())


def has_standards(obj: Any) -> bool:
    """Whether an object has such buffers."""
    return next(_unset(obj), None) is not None


def _unset(obj: Any) -> Iterator[tuple[torch.Tensor, bool]]:
    modules = obj.modules() if isinstance(obj, torch.nn.Module) else ()
    for module in modules:
        kind: Any = type(module)
        held = {name: one for name, one in module._buffers.items() if one is not None}
        for name in sorted(held.keys() & _set_by_methods(kind)):
            centers, buffer = CENTER.search(name) is not None, held[name]
            usual = buffer == (0 if centers else 1)
            if buffer.is_floating_point() and buffer.numel() and bool(usual.all()):
                yield buffer, centers


@functools.cache
def _set_by_methods(kind: Any) -> frozenset[str]:
    """The centers and spreads that a public method of a class assigns or writes to."""
    found: set[str] = set()
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        foreign = method.__module__.partition(".")[0] == "torch"
        if foreign or name.startswith("_") or name in ("forward", "inverse"):
            continue
        with_names = _assigned(method)
        found |= {one for one in with_names if CENTER.search(one) or SPREAD.search(one)}
    return frozenset(found)


def _assigned(method: Any) -> Iterator[str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(method)))
    except (OSError, TypeError, SyntaxError):  # no source
        return
    for node in ast.walk(tree):
        places: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            places = [part for one in node.targets for part in getattr(one, "elts", [one])]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            places = [node.func.value] if node.func.attr in ("copy_", "fill_") else []
        for place in places:
            inner = place.value if isinstance(place, ast.Subscript) else place
            if isinstance(inner, ast.Attribute) and inner.attr == "data":
                inner = inner.value
            if isinstance(inner, ast.Attribute) and ast.unparse(inner.value) == "self":
                yield inner.attr
