"""Event shapes in the notation of libraries."""

from __future__ import annotations

from typing import Any

from flowref.model import Shape, UnknownShape


def as_shape(sizes: Any) -> Shape:
    """A shape from a number or a sequence of numbers."""
    return (int(sizes),) if isinstance(sizes, int) else tuple(int(size) for size in sizes)


def unknown_shape(obj: Any) -> UnknownShape:
    """The error for an object that does not state its event shape."""
    return UnknownShape(
        f"{type(obj).__name__} does not state the shape of its events; give it, as in ?event=4 or "
        "?event=4,4,4"
    )
