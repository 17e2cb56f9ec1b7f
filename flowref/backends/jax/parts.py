"""Parts of a composite: names and maps, and the library's own composition of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from flowref.backends.jax.live import Live
from flowref.backends.jax.programs import programs_of
from flowref.backends.jax.trees import cast, leaves_and_tree, moving
from flowref.backends.parts import composed_object, part_at
from flowref.model import Array, Dialect, Mapped


def part_names_and_maps(live: Live) -> tuple[tuple[str, ...], tuple[Callable[..., Mapped], ...]]:
    """Returns names and maps of a composite's parts."""
    with live.calling():
        names = tuple(name for name, _ in live.dialect.listed(live.object))
    return names, tuple(partial(part_map, live, index) for index in range(len(names)))


def live_of(live: Live, obj: Any, dialect: Dialect) -> Live:
    """A live object made from parts of another, in the same condition."""
    obj = cast(obj, live.dtype)
    leaves, tree = leaves_and_tree(obj)
    programs = programs_of(tree, leaves, dialect, live.programs.single)
    return replace(
        live, programs=programs, leaves=leaves, dialect=dialect, moving=moving(obj), given=None
    )


def part_map(
    live: Live, index: int, x: Array, context: Array | None = None, call: str = "forward"
) -> Mapped:
    """Calls one part of a composite at ``x`` ``(n, *event)``."""
    return arrange(live, index, x, context, call)


def arrange(
    live: Live, expression: Any, x: Array, context: Array | None = None, call: str = "forward"
) -> Mapped:
    """Calls the library's own composition of a subject's parts in one direction, at ``x`` ``(n,
    *event)``.
    """
    with live.calling():
        obj = live.object
        parts = [part for _, part in live.dialect.listed(obj)]
        made = composed_object(expression, obj, parts, live.dialect)
        built = live_of(live, made, live.resolve(made) or live.dialect)
    return Mapped(*built.evaluate(call, x, context))


def live_part(live: Live, name: str, path: Sequence[int]) -> tuple[str, Live]:
    """Returns (name, live object) of the part at a path of indices."""
    with live.calling():
        name, obj, dialect = part_at(name, live.object, live.dialect, path, live.resolve)
        return name, live_of(live, obj, dialect)
