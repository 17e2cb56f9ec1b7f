"""Values for an argument besides points. Each row of `EXTRAS` says how values of one kind are drawn, how
calls that accept them are read, and what is reported if none does; `given` searches the table.
"""

from __future__ import annotations

import contextlib
import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from flowref.adapters.user.conventions import method_calls, signatures
from flowref.adapters.user.conventions.call_forms import (
    GIVEN_ONES,
    MASK_AXES,
    MASKED_OUT,
    Mask,
)
from flowref.adapters.user.conventions.labels import CLASSES, ENOUGH, MOST
from flowref.adapters.user.conventions.names import (
    CONTEXTS,
    INDEXED,
    LABELS,
    MASKED,
    OPTIONAL,
    normalized_name,
)
from flowref.adapters.user.event_shapes import shapes, taken_first
from flowref.adapters.user.inquiry import ROWS, Inquiry
from flowref.adapters.user.probe_calls import raised_most, resolve_calls, resolve_object
from flowref.model import Ambiguous, Facts, Shape, TargetError

# Tried sizes of a context.
SIZES = (*range(1, 13), 16, 20, 24, 32, 64, 128)
# Sizes of contexts, and none, that no call accepts alike while using them.
ANY = (None, (3,), (5,))
# Maximal number of fitting event shapes that are compared.
GUESSES = 3
# Features and context sizes tried together if the event shape is unknown as well.
EVENTS, PAIRED = (2, 3, 4, 1, 5, 6, 8), (2, 3, 4, 1, 5, 6, 8, 10)
# Minimal length of padded sequences, padding included.
LEAST = 4
# Kinds of arguments by their names: masks, which random numbers cannot stand for, indices, for
# which few can, and others.
KINDS = ("context", "index", "mask")
# Tried shapes of masks of ones.
MASKS = ("each position", "each position, last", "each place", "each entry")


class RunningLogDet(TargetError):
    """Raised if the argument besides points is a running log-det."""


@dataclass(frozen=True)
class Extra:
    """A row: one kind of value for an argument besides points.

    ``words`` and ``example``: for the documentation;
    ``drawn``: inquiries with values of this kind for an argument name, likeliest first, given what was
        found so far;
    ``read``: what calls show, None if they do not accept the values;
    ``refused``: the message if no call does;
    ``settled``: the choice among all that was found, by default the first;
    ``of``: the `KINDS` that the row applies to;
    ``added``: whether the values may be taken for a running log-det.
    """

    words: str
    example: str
    drawn: Callable[[Inquiry, str, list[Inquiry]], Iterator[Inquiry]]
    read: Callable[[Inquiry, str], Inquiry | None]
    refused: str = ""
    settled: Callable[[Inquiry, str, list[Inquiry]], Inquiry] | None = None
    of: tuple[str, ...] = KINDS
    added: bool = False


def given(inquiry: Inquiry, name: str, rows: Iterable[Extra] | None = None) -> Inquiry:
    """The inquiry with the argument ``name`` given values of the first row that calls accept.

    Raises `Ambiguous` if calls accept several that differ, or with the first row's message if they accept
    none.
    """
    refused: TargetError | None = None
    for row in EXTRAS if rows is None else rows:
        if argument_kind(name) not in row.of or (row.added and isinstance(refused, RunningLogDet)):
            continue
        try:
            return _of_kind(row, inquiry, name)
        except Ambiguous:
            raise
        except TargetError as error:
            refused = refused or error
    raise refused or TargetError(f"it asks for {name} besides points")


def _of_kind(row: Extra, inquiry: Inquiry, name: str) -> Inquiry:
    found: list[Inquiry] = []
    raised: list[Exception] = []
    for asked in row.drawn(inquiry, name, found):
        try:
            read = row.read(asked, name)
        except RunningLogDet:
            raise
        except Exception as error:  # it accepts no such values
            raised.append(error)
            continue
        found += [] if read is None else [read]
    if found:
        return row.settled(inquiry, name, found) if row.settled else found[0]
    why = f": {raised_most(raised)}" if raised else ""
    raise TargetError(row.refused.format(name=name, why=why))


def same_outputs(one: Any, other: Any) -> bool:
    """Whether two calls returned equal values and log-dets."""
    if one is None or other is None:
        return one is other
    for a, b in zip(one, other, strict=True):
        if (a is None) != (b is None):
            return False
        if a is not None and (a.shape != b.shape or bool(((a - b).abs() > 1e-9).any())):
            return False
    return True


def argument_kind(name: str) -> str:
    """The kind of an argument by its name, one of `KINDS`."""
    if MASKED.fullmatch(normalized_name(name)):
        return "mask"
    return "index" if INDEXED.search(normalized_name(name)) else "context"


def stated_context_shape(obj: Any) -> Shape | None:
    """The context shape stated by an attribute, or None."""
    for name, value in getattr(obj, "__dict__", {}).items():
        if normalized_name(name) in CONTEXTS and type(value) is int and value > 0:
            return (value,)
    return None


def several(name: str, found: Sequence[Inquiry], facts: Facts) -> Ambiguous:
    """The error for calls that accept contexts of several shapes."""
    options = []
    for one in found[:3]:
        event, context = one.facts.event_shape, one.facts.context_shape or ()
        said = [*([] if facts.event_shape else [("event", event)]), ("context", context)]
        options.append("?" + "&".join(f"{what}={','.join(map(str, one))}" for what, one in said))
    return Ambiguous(
        f"it asks for {name}, and takes contexts of several shapes: say {' or '.join(options)}"
    )


def _likely_events(inquiry: Inquiry) -> list[Shape]:
    """The known event shape, or the candidates, likeliest first."""
    if inquiry.facts.event_shape:
        return [inquiry.facts.event_shape]
    likely = shapes(inquiry.obj, inquiry.state)
    return list(dict.fromkeys([*((size,) for size in EVENTS), *likely]))


# Numbers of one shape; with the event shape if only one pair is accepted.


def _numeric_contexts(inquiry: Inquiry, name: str, found: list[Inquiry]) -> Iterator[Inquiry]:
    obj, facts = inquiry.obj, inquiry.facts
    known, shaped, late = stated_context_shape(obj), bool(facts.event_shape), False
    for (event, context), refused in taken_first(inquiry, _event_context_shapes(obj, facts)):
        if found and refused and not late:
            return  # accepted as written
        if found and context != found[-1].facts.context_shape == known and not shaped:
            return  # a stated shape is used
        late = refused
        yield inquiry.having(event_shape=event, context_shape=context)
        if found and shaped and found[-1].facts.context_shape == known:
            return


def _event_context_shapes(obj: Any, facts: Facts) -> Iterator[tuple[Shape, Shape]]:
    known = stated_context_shape(obj)
    sizes: Sequence[Shape] = [(size,) for size in SIZES]
    if facts.event_shape:
        tried = dict.fromkeys([known or (1,), *sizes])
        yield from ((facts.event_shape, size) for size in tried)
        if len(facts.event_shape) == 2:  # for sequences a context is broadcast over positions
            yield from ((facts.event_shape, (*size, 1)) for size in tried)
        return
    for contexts in ([known] if known else [], [(size,) for size in PAIRED]):
        yield from (((features,), context) for features in EVENTS for context in contexts)
        yield from (((), context) for context in contexts)


def _taking_numbers(inquiry: Inquiry, name: str) -> Inquiry | None:
    x, context = inquiry.points(inquiry.facts.context_shape or ())
    fitting = resolve_object(inquiry, x, context)
    forward = None if fitting is None else fitting.dialect.forward
    if forward is None:
        return inquiry if fitting else None
    ladj = forward(inquiry.obj, x, context)[1]
    if ladj is None:
        return inquiry
    if _accumulates(forward, inquiry.obj, x, context):
        raise RunningLogDet(
            f"it adds its log-det to {name}, or takes it from that: say ?running=add or "
            "?running=subtract"
        )
    entries = math.prod(getattr(ladj, "shape", ()))
    return inquiry if entries in (1, ROWS, math.prod(x.shape)) else None


def _accumulates(call: Any, obj: Any, x: Any, context: Any) -> bool:
    """Whether the log-det shifts with the second argument while the value does not."""
    # In-place addition would write to the argument.
    (value, ladj), (other, moved) = call(obj, x, context + 0), call(obj, x, context + 1)
    if ladj.shape != moved.shape or not bool((value == other).all()):
        return False
    return bool(((moved - ladj).abs() - 1).abs().max() < 1e-4)


def _of_one_shape(inquiry: Inquiry, name: str, found: list[Inquiry]) -> Inquiry:
    known = stated_context_shape(inquiry.obj)
    if len(found) > 1 and not inquiry.facts.event_shape:
        found = [one for one in found if drawn_alike(one.again())] or found
    found = [one for one in found if not any(_stretches(one, other, known) for other in found)]
    facts = found[0].facts
    if len(found) > 1:
        if {one.facts.context_shape for one in found} == {facts.context_shape}:
            # Several events fit; the first is used.
            guessed = tuple(one.facts.event_shape for one in found[1:GUESSES])
            facts = replace(facts, guessed=guessed)
        elif _unused(found[0]):
            raise TargetError(
                f"it asks for {name}, which has no effect on its results: name a factory of a "
                "subclass whose forward takes points alone and passes it on"
            )
        else:
            raise several(name, found, inquiry.facts)
    shape = ", ".join(map(str, facts.context_shape or ()))
    return replace(inquiry, facts=facts).knowing(f"context: {name} of shape ({shape},)")


def drawn_alike(inquiry: Inquiry) -> bool:
    """Whether samples under a context have the event shape in every calling form."""
    obj, event, shape = inquiry.obj, inquiry.facts.event_shape, inquiry.facts.context_shape or ()
    context = inquiry.tensor(np.random.default_rng(0).standard_normal((ROWS, *shape)))
    drawn = next(_sampled(obj, (2, context), (context,), (context, 2)), ())
    return len(drawn) > len(event) and drawn[len(drawn) - len(event) :] == event


def _sampled(obj: Any, *orders: tuple[Any, ...]) -> Iterator[Shape]:
    """The shapes of samples for several argument orders."""
    for order in orders:
        with contextlib.suppress(Exception):  # it has no sampler, or another calling form
            yield tuple(obj.sample(*order).shape)


def _stretches(one: Inquiry, other: Inquiry, known: Shape | None) -> bool:
    """Whether calls accept a context size only by broadcasting one number."""
    (event, context), (events, contexts) = (
        (each.facts.event_shape, each.facts.context_shape) for each in (one, other)
    )
    of_event = event == (1,) and context == contexts and event != events
    return of_event or (context == (1,) != known and event == events and context != contexts)


def _unused(inquiry: Inquiry) -> bool:
    """Whether the map does not depend on the numbers given besides points, as one that expects labels."""
    x, first, *others = inquiry.points(inquiry.facts.context_shape or (), *filter(None, ANY))
    try:
        forward = resolve_calls(inquiry.again(), x, first).dialect.forward
        if forward is None:
            return False
        return same_outputs(*(forward(inquiry.again().obj, x + 0.0, one) for one in others))
    except Exception:  # it accepts only some
        return False


# Class labels: integers from 0.


def _first_labels(inquiry: Inquiry, name: str, found: list[Inquiry]) -> Iterator[Inquiry]:
    if not name or inquiry.backend.name != "torch":
        return
    import torch

    events, labels = _likely_events(inquiry), torch.zeros(ROWS, dtype=torch.long)
    if not inquiry.facts.event_shape:
        drawn = _sampled(inquiry.obj, (labels,), (ROWS, labels), (labels, ROWS))
        many = [one[1:] for one in drawn if one[:1] == (ROWS,) and len(one) > 1]
        events = list(dict.fromkeys([*many, *events]))
    promises = {**inquiry.facts.promises, "labels": True}
    for event in filter(None, events):
        if not found:
            yield inquiry.having(event_shape=event, context_shape=(1,), promises=promises)


def _taking_labels(inquiry: Inquiry, name: str) -> Inquiry | None:
    """The inquiry with the accepted number of classes. Layers that return a value alone are left out:
    conditional batch norms are tested at one class.
    """
    x = inquiry.drawn()
    if not _takes(inquiry, x, 0):
        return None
    count = 1 + bisect_left(range(1, MOST), True, key=lambda label: not _takes(inquiry, x, label))
    count = count if count < MOST else ENOUGH
    which = f"labels 0 to {count - 1}" if count > 1 else "the label 0"
    said = f"{name}: {which}, to which contexts are rounded"
    return inquiry.knowing(said, **{CLASSES: str(count)})


def _takes(inquiry: Inquiry, x: Any, label: int) -> bool:
    context = x.new_full((len(x), 1), float(label))
    with contextlib.suppress(Exception):  # it accepts no such label
        if fitting := resolve_object(inquiry.knowing(**{CLASSES: str(label + 1)}), x, context):
            there, *others = (
                getattr(fitting.dialect, call) for call in ("forward", "inverse", "log_prob")
            )
            return any(others) or (there and there(inquiry.obj, x, context)[1] is not None)
    return False


# Constants: a mask of ones, a mask with padding, None, or one label for all points.


def _bind_extra_argument(inquiry: Inquiry, name: str, found: list[Inquiry]) -> Iterator[Inquiry]:
    word = normalized_name(name)
    looked_up = word in LABELS | OPTIONAL or word.endswith("label")  # in an embedding table
    kinds = (
        MASKS if argument_kind(name) == "mask" else ("none", "label") if looked_up else ("none",)
    )
    if word == "xmask":  # of sequences: usually over (B, C, T)
        kinds = MASKS[:1]
    for kind, event in product(kinds, _likely_events(inquiry)):
        words = {"none": "None", "label": "1 for all points"}.get(kind, f"ones for {kind}")
        bound = inquiry.knowing(f"{name}: {words}", **{GIVEN_ONES: f"{name}={kind}"})
        if event and not (found and not inquiry.facts.event_shape):
            yield bound.having(event_shape=event)


def _taking_bound(inquiry: Inquiry, name: str) -> Inquiry | None:
    if fitting := resolve_object(inquiry, inquiry.drawn(), None):
        inquiry = replace(inquiry, dialect=fitting.dialect)
        _forward_output(inquiry)  # which may raise
    return inquiry if fitting else None


def _forward_output(inquiry: Inquiry) -> Any:
    forward = inquiry.dialect.forward
    return None if forward is None else forward(inquiry.obj, inquiry.drawn(), None)


def _of_one_result(inquiry: Inquiry, name: str, found: list[Inquiry]) -> Inquiry:
    first, *others = map(_forward_output, found)
    if not all(same_outputs(first, other) for other in others):
        raise Ambiguous(
            f"it asks for {name}, and masks of ones of several shapes give several results: name a "
            "factory that returns the object with it bound"
        )
    return replace(found[0], dialect=inquiry.dialect, facts=inquiry.facts)


def _with_padding_mask(inquiry: Inquiry, name: str, found: list[Inquiry]) -> Iterator[Inquiry]:
    events: list[Shape] = [inquiry.facts.event_shape]
    if not events[0]:
        likely = shapes(inquiry.obj, inquiry.state)
        events = list(dict.fromkeys(shape for shape in likely if len(shape) == 2))
    words = f"padded by one position, which {name} masks out"
    for event, axes, true in product(events, MASK_AXES, (False, True)):
        mask = Mask(name, axes, true)
        if not found and len(event) >= mask.axis and event[mask.axis - 1] >= LEAST:
            yield inquiry.having(event_shape=event).knowing(words, **{MASKED_OUT: str(mask)})


def _taking_padding(inquiry: Inquiry, name: str) -> Inquiry | None:
    """The inquiry of padded sequences, restricted to the positions before the padding."""
    mask, event = Mask.parse(inquiry.chosen[MASKED_OUT]), [*inquiry.facts.event_shape]
    if not _masks_out(inquiry.without(MASKED_OUT), inquiry.drawn(), mask):
        return None
    event[mask.axis - 1] -= 1
    obj, dialect, dense = inquiry.obj, inquiry.dialect, None
    if name in {one.name for one in signatures.method_parameters(obj, "log_prob")}:
        call = mask.call("log_prob", (), signatures.keyword_context_parameter(obj, "log_prob", 1))
        dense = partial(method_calls.padded, ask=call, axis=mask.axis)
    dialect = replace(dialect, log_prob=dialect.log_prob and dense, sample=None)
    return replace(inquiry, dialect=dialect).having(event_shape=tuple(event))


def _masks_out(inquiry: Inquiry, x: Any, mask: Mask) -> bool:
    """Whether a mask of ones changes nothing, and masked entries come back unchanged or zero."""
    obj, way = inquiry.obj, inquiry.way
    if way is None or way.form != "plain":
        return False
    sizes = [1 if axis is None else x.shape[axis] for axis in mask.axes]
    ones = x.new_ones(sizes).bool() if mask.true else x.new_ones(sizes)
    asked = replace(way, given=(*way.given, (mask.name, ones)))
    needed = mask.name in signatures.required(obj, way.method or "forward")
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


NUMBERS = Extra(
    "numbers, of the only shape that all calls accept", "forward(x, context)", _numeric_contexts, _taking_numbers,
    "it asks for {name} besides points, and no context of the usual sizes was taken{why}. If it is a context, say ?context=2 "
    "(and ?event=); if it is a mask, a label or anything else, name a factory that returns the object with it bound",
    _of_one_shape, of=("context",),
)  # fmt: skip
INDICES = replace(
    NUMBERS, words="the same for indices, lengths and graphs, which few numbers can stand for", example="forward(x, edges)",
    of=("index",),
    refused="it asks for {name} besides points, which random numbers cannot stand for: name a factory of a subclass whose "
    "forward and inverse take points alone and pass it on",
)  # fmt: skip
LABELLED = Extra(
    "class labels, if it accepts no numbers", "forward(x, label)", _first_labels, _taking_labels,
    of=("context",), added=True,
)  # fmt: skip
ONES = Extra(
    "a mask of ones", "forward(x, mask)", _bind_extra_argument, _taking_bound,
    "it asks for {name} besides points, and no mask of ones was taken: name a factory that returns the object with it "
    "bound, and give its ?event=", _of_one_result, of=("mask",),
)  # fmt: skip
ALIKE = replace(
    ONES, words="None, or one label for all points, if it accepts neither", example="forward(x, y)", refused="",
    of=("context", "index"),
)  # fmt: skip
PADDING = Extra(
    "a mask that leaves out a last position, if declared", "?padded=mask", _with_padding_mask, _taking_padding,
    "{name} was declared as a padding mask, but no mask of sequences works as one: a mask of ones must change nothing, "
    "and masked entries must come back unchanged or zero",
)  # fmt: skip
EXTRAS = (NUMBERS, INDICES, LABELLED, ONES, ALIKE)
