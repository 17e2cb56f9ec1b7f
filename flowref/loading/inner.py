"""Parts of an object audited by themselves, whose constructor arguments are given by the object around
them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

from flowref.model import Shape, TargetError, nearest

# Maximal depth and number of objects of the search.
DEEPEST, MOST = 6, 10_000
PLAIN = (str, bytes, int, float, complex, type, type(None))


def part_of(build: Callable[[], Any], part: str) -> Any:
    """The part of what ``build`` returns that `place_of_part` finds."""
    return place_of_part(build(), part)[1]


def place_of_part(obj: Any, part: str) -> tuple[str, Any]:
    """The first part of an object of the class, or under the path, named ``part`` (such as layers.0), with
    the Python expression that leads to it (such as .layers[0]).

    Raises `TargetError` if there is none, with the classes of existing parts.
    """
    classes: dict[str, None] = {}
    for access, one in inner(obj):
        name = type(one).__name__
        if part in (name, re.sub(r"\['?(\w+)'?\]", r".\1", access).lstrip(".")):
            return access, one
        if hasattr(one, "__dict__") and not isinstance(one, dict) and not hasattr(one, "shape"):
            classes[name] = None
    known = f"; its parts are of {', '.join(classes)}" if 0 < len(classes) < 9 else ""
    raise TargetError(f"it has no part {part!r}{nearest(part, classes)}{known}")


def event_of_part(obj: Any, part: str, call: Callable[[Any], object], rows: int) -> Shape | None:
    """The event shape of the first call of a part while the whole is called with ``rows`` rows; None if it
    is not called with one.
    """
    one = place_of_part(obj, part)[1]
    if not hasattr(one, "register_forward_pre_hook"):
        return None
    shapes: list[Shape] = []
    hook = one.register_forward_pre_hook(
        lambda _, given: shapes.extend(tuple(getattr(x, "shape", ())) for x in given[:1])
    )
    try:
        with contextlib.suppress(Exception):  # an exception later in the call does not matter
            call(obj)
    finally:
        hook.remove()
    seen = shapes[0] if shapes else ()
    return seen[1:] if len(seen) > 1 and seen[0] == rows else None


def inner(obj: Any) -> Iterator[tuple[str, Any]]:
    """The objects held by an object, recursively, each once and nearest first, with the expressions that
    lead to them.
    """
    seen, row = {id(obj)}, [("", obj)]
    for _ in range(DEEPEST):
        below = []
        for way, holder in row:
            for step, one in _direct_members(holder):
                if not isinstance(one, PLAIN) and id(one) not in seen and len(seen) < MOST:
                    seen.add(id(one))
                    below.append((way + step, one))
                    yield below[-1]
        row = below


def _direct_members(holder: Any) -> Iterator[tuple[str, Any]]:
    """What an object holds directly; modules keep theirs in a table."""
    if isinstance(holder, dict):
        yield from ((f"[{key!r}]", one) for key, one in holder.items())
    elif isinstance(holder, list | tuple):
        yield from ((f"[{index}]", one) for index, one in enumerate(holder))
    else:
        own = getattr(holder, "__dict__", {})
        for name, one in own.get("_modules", {}).items():
            yield (f"[{name}]" if name.isdigit() else f".{name}"), one
        yield from ((f".{name}", one) for name, one in own.items() if name != "_modules")
