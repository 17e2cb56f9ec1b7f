"""Presents a call to a Jacobian visitor: the whole, and the pieces that it can be cut into (see
`cuts`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

from flowref.backends.result_cache import KEPT, call_digest
from flowref.backends.torch.cuts import pieces
from flowref.backends.torch.derivatives import graphed_rows
from flowref.backends.torch.live import Live
from flowref.backends.torch.stages import MapCall, stage_of
from flowref.backends.torch.state import trainable
from flowref.model import Array, Undecidable, Visitor

# The nominal work of a walk in calls; Jacobians are budgeted when they are made.
WALKED = 20.0


def walk(
    live: Live,
    name: str,
    x: Array,
    context: Array | None,
    visitor: Visitor[Any],
    steady: bool = False,
) -> Any:
    """Returns the visitor's result for one call at ``x`` ``(n, *event)``; ``steady``: for the call
    without noise, once for each point. Raises `Undecidable` if the visitor does; if it did so
    without noise, it does so under noise.
    """

    def shown() -> Any:
        before, live.rounding = live.rounding, None if steady else live.rounding
        try:
            return _visit_stages(live, name, x, context, visitor, found is not None)
        except Undecidable as refusal:
            return type(refusal)(str(refusal))  # a new exception holds no frames
        finally:
            live.rounding = before

    key = (live.number, None, live.default, call_digest(f"walk {steady} {name}", x, context))
    plain = steady or live.rounding is None
    found = None if plain else KEPT.entries.get(key)
    if plain:
        found = KEPT.get(key, shown, anew=not steady)
    elif not isinstance(found, Undecidable):
        found = shown()
    if isinstance(found, Undecidable):
        raise type(found)(str(found))
    return found


def _visit_stages(
    live: Live, name: str, x: Array, context: Array | None, visitor: Visitor[Any], seen: bool
) -> Any:
    with live.lend() as obj, frozen(obj), live.calling(f"walk {name}"):
        points = live.tensor(x, support=live.support_of(name))
        assert points is not None
        live.afford(name, len(x), WALKED, graphed=True)
        asked = MapCall(partial(live.function(name), obj), live.tensor(context, jitter=1))
        whole = stage_of(asked, points, graphed_rows(live.facts.cost, name))
        return visitor(whole, lambda: pieces(asked, points, seen))


@contextlib.contextmanager
def frozen(obj: Any) -> Iterator[None]:
    """Parameters require no gradients inside: products of masks and weights, call after call,
    would fill the memory.
    """
    held = [parameter for _, parameter in trainable(obj)]
    for parameter in held:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in held:
            parameter.requires_grad_(True)
