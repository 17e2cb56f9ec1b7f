"""What is given for an argument that is no context: a mask of ones, or one that leaves out padding, None, or one
label for all points.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from flowref.adapters.user import probing
from flowref.adapters.user.contexts import EVENTS, is_mask, same
from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.call_forms import GIVEN_ONES, MASK_AXES, Chosen, Mask
from flowref.adapters.user.conventions.names import LABELS, OPTIONAL, plain
from flowref.adapters.user.conventions.roles import forward_way
from flowref.model import Ambiguous, Dialect, Facts, Shape, TargetError, draw

# Positions of padded sequences at least, the padding among them.
LEAST = 4
# Shapes of masks of ones that are tried.
MASKS = ("each position", "each position, last", "each place", "each entry")


def bind(
    obj: Any, dialect: Dialect, backend: Any, dtype: str, facts: Facts, chosen: Chosen, name: str
) -> str:
    """What to give for an argument that is no context, by its name: a mask of ones where all shapes
    that are taken give the same, or None, or one label for all points; empty where none of these is
    taken.
    """
    masked, labels = is_mask(name), plain(name) in LABELS or plain(name).endswith("label")
    looked_up = labels or plain(name) in OPTIONAL  # in a table
    kinds = MASKS if masked else ("none", "label") if looked_up else ("none",)
    if plain(name) == "xmask":  # of sequences: as everybody spells it, over (B, C, T)
        kinds = MASKS[:1]
    events: list[Shape] = [facts.event_shape]
    if not facts.event_shape:
        likely = probing.shapes(obj, backend.state_shapes(obj))
        events = list(dict.fromkeys([*((size,) for size in EVENTS), *likely]))
    found: dict[str, Any] = {}
    for kind, event in product(kinds, events):
        rng = np.random.default_rng(0)
        x = backend.tensor(draw(facts.domain, (probing.ROWS, *event), rng), dtype)
        given = {**chosen, GIVEN_ONES: f"{name}={kind}"}
        try:
            fitting = len(x.shape) > 1 and probing.fit(obj, dialect, x, None, facts, given)
            if not fitting:
                continue
            forward = fitting.dialect.forward
            found[kind] = None if forward is None else forward(obj, x, None)
        except Exception:  # it takes no such thing
            continue
        if not facts.event_shape:
            return f"{name}={kind}"
    if masked and not found:
        raise TargetError(
            f"it asks for {name} besides points, and no mask of ones was taken: name a factory that "
            "returns the object with it bound, and give its ?event="
        )
    outs = list(found.values())
    if any(not same(outs[0], other) for other in outs[1:]):
        raise Ambiguous(
            f"it asks for {name}, and masks of ones of several shapes give several results: name a "
            "factory that returns the object with it bound"
        )
    return f"{name}={next(iter(found))}" if found else ""


def padding(
    obj: Any, dialect: Dialect, backend: Any, dtype: str, facts: Facts, chosen: Chosen, name: str
) -> tuple[Mask, Shape]:
    """How an argument masks out the last position of sequences, and the event shape that
    is left: where a mask of ones is none at all, and what is masked out comes back as it was, or as zero.

    Raises `TargetError` where it does not.
    """
    events: list[Shape] = [facts.event_shape]
    if not facts.event_shape:
        likely = probing.shapes(obj, backend.state_shapes(obj))
        events = list(dict.fromkeys(shape for shape in likely if len(shape) == 2))
    for event, axes, true in product(events, MASK_AXES, (False, True)):
        mask = Mask(name, axes, true)
        if len(event) < mask.axis or event[mask.axis - 1] < LEAST:
            continue
        short = list(event)
        short[mask.axis - 1] -= 1
        x = draw(facts.domain, (probing.ROWS, *event), np.random.default_rng(0))
        if _masks_out(obj, dialect, backend.tensor(x, dtype), chosen, mask):
            return mask, tuple(short)
    raise TargetError(
        f"{name} was said to mask out padding, and no mask of sequences was taken that does: a mask of ones is "
        "to change nothing, and what is masked out is to come back as it was or as zero"
    )


def _masks_out(obj: Any, dialect: Dialect, x: Any, chosen: Chosen, mask: Mask) -> bool:
    """Whether a mask of ones changes nothing, and what is masked out comes back as it was or as zero."""
    way = forward_way(obj, chosen) if dialect.forward is not None else None
    if way is None or way.form != "plain":
        return False
    sizes = [1 if axis is None else x.shape[axis] for axis in mask.axes]
    ones = x.new_ones(sizes).bool() if mask.true else x.new_ones(sizes)
    asked = replace(way, given=(*way.given, (mask.name, ones)))
    needed = mask.name in signatures.required(obj, way.method or "forward")
    try:
        whole, alike, padded = (
            out[0] if isinstance(out, (tuple, list)) else out
            for out in (
                (asked if needed else way).ask(obj, x, None),
                asked.ask(obj, x, None),
                mask.call(way.method, way.given)(obj, x, None),
            )
        )
        last, came = (value.narrow(mask.axis, -1, 1) for value in (padded, x))
        left = bool((last == 0).all()) or bool((last == came).all())
        unchanged = whole.shape == x.shape and bool(((whole - alike).abs() < 1e-9).all())
        return unchanged and left
    except Exception:  # it takes no such mask, or no such events
        return False
