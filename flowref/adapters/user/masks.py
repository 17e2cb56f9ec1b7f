"""What is given for an argument that is no context: a mask of ones, or one that leaves out padding, None, or one
label for all points.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

from flowref.adapters.user.contexts import is_mask, likely_events, same
from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.call_forms import (
    GIVEN_ONES,
    MASK_AXES,
    Mask,
)
from flowref.adapters.user.conventions.names import LABELS, OPTIONAL, plain
from flowref.adapters.user.event_shapes import shapes
from flowref.adapters.user.inquiry import Inquiry
from flowref.adapters.user.probing import fit
from flowref.model import Ambiguous, Shape, TargetError

# Positions of padded sequences at least, the padding among them.
LEAST = 4
# Shapes of masks of ones that are tried.
MASKS = ("each position", "each position, last", "each place", "each entry")


def bind(inquiry: Inquiry, name: str) -> str:
    """What to give for an argument that is no context, by its name: a mask of ones where all shapes
    that are taken give the same, or None, or one label for all points; empty where none of these is
    taken.
    """
    masked, labels = is_mask(name), plain(name) in LABELS or plain(name).endswith("label")
    looked_up = labels or plain(name) in OPTIONAL  # in a table
    kinds = MASKS if masked else ("none", "label") if looked_up else ("none",)
    if plain(name) == "xmask":  # of sequences: as everybody spells it, over (B, C, T)
        kinds = MASKS[:1]
    found: dict[str, Any] = {}
    for kind, event in product(kinds, likely_events(inquiry)):
        x = inquiry.drawn(event)
        given = inquiry.knowing(**{GIVEN_ONES: f"{name}={kind}"})
        try:
            fitting = len(x.shape) > 1 and fit(given, x, None)
            if not fitting:
                continue
            forward = fitting.dialect.forward
            found[kind] = None if forward is None else forward(inquiry.obj, x, None)
        except Exception:  # it takes no such thing
            continue
        if not inquiry.facts.event_shape:
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


def padding(inquiry: Inquiry, name: str) -> tuple[Mask, Shape]:
    """How an argument masks out the last position of sequences, and the event shape that
    is left: where a mask of ones is none at all, and what is masked out comes back as it was, or as zero.

    Raises `TargetError` where it does not.
    """
    events: list[Shape] = [inquiry.facts.event_shape]
    if not events[0]:
        likely = shapes(inquiry.obj, inquiry.state)
        events = list(dict.fromkeys(shape for shape in likely if len(shape) == 2))
    for event, axes, true in product(events, MASK_AXES, (False, True)):
        mask = Mask(name, axes, true)
        if len(event) < mask.axis or event[mask.axis - 1] < LEAST:
            continue
        short = list(event)
        short[mask.axis - 1] -= 1
        if _masks_out(inquiry, inquiry.drawn(event), mask):
            return mask, tuple(short)
    raise TargetError(
        f"{name} was said to mask out padding, and no mask of sequences was taken that does: a mask of ones is "
        "to change nothing, and what is masked out is to come back as it was or as zero"
    )


def _masks_out(inquiry: Inquiry, x: Any, mask: Mask) -> bool:
    """Whether a mask of ones changes nothing, and what is masked out comes back as it was or as zero."""
    obj, way = inquiry.obj, inquiry.way
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
