"""Parts of a composite: their names and maps, and the library's own composition of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from flowref.backends.arranging import arranged
from flowref.backends.jax.live import Live
from flowref.backends.jax.programs import programs_of
from flowref.backends.jax.trees import apart, cast, moving
from flowref.model import Array, Dialect, Mapped, TargetError


def listed_parts(obj: Any, dialect: Dialect) -> Sequence[tuple[str, Any]]:
    """The parts of a composite, or nothing where it cannot be taken apart."""
    if dialect.parts is None:
        return ()
    try:
        listed = list(dialect.parts(obj))
    except Exception:  # what its attributes raise is the object's affair
        return ()
    return listed if len(listed) > 1 else ()


def parts_of(live: Live) -> tuple[tuple[str, ...], tuple[Callable[..., Mapped], ...]]:
    """Names and maps of a composite's parts."""
    with live.calling():
        names = tuple(name for name, _ in listed_parts(live.object, live.dialect))
    return names, tuple(partial(part_map, live, index) for index in range(len(names)))


def live_of(live: Live, obj: Any) -> Live:
    """An object that was made of a live one's parts, in the same condition."""
    obj = cast(obj, live.dtype)
    leaves, tree = apart(obj)
    dialect = live.resolve(obj) or live.dialect
    programs = programs_of(tree, leaves, dialect, live.programs.single)
    return Live(
        programs, leaves, dialect, live.facts, live.dtype, live.seed, moving(obj), live.resolve,
        live.rounding,
    )  # fmt: skip


def part_map(
    live: Live, index: int, x: Array, context: Array | None = None, call: str = "forward"
) -> Mapped:
    """One part of a composite."""
    return arrange(live, index, x, context, call)


def arrange(
    live: Live, expression: Any, x: Array, context: Array | None = None, call: str = "forward"
) -> Mapped:
    """The library's own composition of a subject's parts, called in one direction."""
    with live.calling():
        obj = live.object
        parts = [part for _, part in listed_parts(obj, live.dialect)]
        built = live_of(live, arranged(expression, obj, parts, live.dialect))
    return Mapped(*built.evaluate(call, x, context))


def part_at(live: Live, name: str, path: Sequence[int]) -> tuple[str, Live]:
    """The part at a path of indices as an object of its own, and its name. Raises `TargetError`
    where there is no such part.
    """
    for index in path:
        with live.calling():
            listed = listed_parts(live.object, live.dialect)
            if index >= len(listed):
                raise TargetError(f"{name} has {len(listed)} parts; part {index} was asked for")
            label, obj = listed[index]
            name, live = f"{name}/{label}", live_of(live, obj)
    return name, live
