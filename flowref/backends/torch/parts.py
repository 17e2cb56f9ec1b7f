"""Parts of a composite: names and maps, the library's own composition of them, and one part as a
live object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from flowref.backends.parts import composed_object, part_at
from flowref.backends.torch.arrays import as_mapped
from flowref.backends.torch.live import Live
from flowref.backends.torch.methods import sparingly
from flowref.backends.torch.state import duplicate
from flowref.model import Array, Dialect, Mapped


def part_names_and_maps(live: Live) -> tuple[tuple[str, ...], tuple[Callable[..., Mapped], ...]]:
    """Returns names and maps of a composite's parts."""
    listed = live.dialect.listed(live.pristine)
    dialects = [live.resolve(part) or live.dialect for _, part in listed]
    names = tuple(name for name, _ in listed)
    return names, tuple(partial(part_map, live, *numbered) for numbered in enumerate(dialects))


def part_map(
    live: Live,
    index: int,
    dialect: Dialect,
    x: Array,
    context: Array | None = None,
    call: str = "forward",
) -> Mapped:
    """Calls one part of a composite, on a fresh copy of the whole, at ``x`` ``(n, *event)``."""
    assert live.dialect.parts is not None
    with live.lend() as obj, live.calling(f"part {index}"):
        listed = live.dialect.parts(obj)
        live.afford(call, len(x), 1 / max(1, len(listed)))
        return _call_part(live, dialect, call, listed[index][1], x, context)


def arrange(
    live: Live, expression: Any, x: Array, context: Array | None = None, call: str = "forward"
) -> Mapped:
    """Calls the library's own composition of a subject's parts in one direction, at ``x`` ``(n,
    *event)``.
    """
    with live.calling("arrange"):
        obj = live.take()
        parts = [part for _, part in live.dialect.listed(obj)]
        built = composed_object(expression, obj, parts, live.dialect)
        live.afford(call, len(x))
        return _call_part(live, live.resolve(built) or live.dialect, call, built, x, context)


def _call_part(
    live: Live, dialect: Dialect, call: str, obj: Any, x: Array, context: Array | None
) -> Mapped:
    ready = live.tensor(x), live.tensor(context, jitter=1)

    def run() -> Any:
        return getattr(dialect, call)(obj, *ready)

    heavy = live.facts.cost.of(call).heavy
    return as_mapped(call, sparingly(live, call, obj, run) if heavy else run())


def live_part(live: Live, name: str, path: Sequence[int]) -> tuple[str, Live]:
    """Returns (name, live object) of the part at a path of indices, as loaded and moved within the
    whole.
    """
    walk = partial(part_at, dialect=live.dialect, path=path, resolve=live.resolve)
    name, obj, dialect = walk(name, live.pristine)

    def again(_: int = 0) -> Any:
        return walk(name, live.rebuild())[1]

    details = dialect, live.facts, live.dtype, live.seed
    return name, Live(duplicate(obj), *details, again, again, live.resolve)
