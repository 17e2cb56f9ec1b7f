"""Which shape a context has that a call asks for: as an attribute tells it, or the only one that
every call takes.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.adapters.user import calls
from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.labels import CLASSES, ENOUGH, GIVEN_LABELS, MOST
from flowref.adapters.user.conventions.names import (
    CONTEXTS,
    INDEXED,
    MASKED,
    OPTIONAL,
    is_context,
    is_scale,
    may_be_context,
    plain,
    sign_of,
)
from flowref.adapters.user.event_shapes import shapes, taken_first
from flowref.adapters.user.inquiry import ROWS, Inquiry
from flowref.adapters.user.probing import fit, settle
from flowref.model import Ambiguous, Dialect, Facts, Shape, TargetError, draw, one_line, place_of

# Numbers of entries of a context that are tried.
SIZES = (*range(1, 13), 16, 20, 24, 32, 64, 128)
# Sizes of contexts, besides none, that no call takes alike and makes use of.
ANY = (None, (3,), (5,))
# So many points and contexts tell whether calls are finite under all of them.
MANY = 256
# So many event shapes that fit are told apart from one that does not, where any do.
GUESSES = 3
# Features and sizes that are tried together, where the event shape is unknown as well.
EVENTS, PAIRED = (2, 3, 4, 1, 5, 6, 8), (2, 3, 4, 1, 5, 6, 8, 10)


class RunningLogDet(TargetError):
    """What is asked for besides points is a running log-det."""


def wanted(inquiry: Inquiry) -> str:
    """The argument besides points that the map, or the log-density, cannot do without; empty where
    there is none.
    """
    obj, dialect, way = inquiry.obj, inquiry.dialect, inquiry.way
    if getattr(dialect.log_prob, "func", None) is calls.log_prob_of_entries:
        return ""
    if way is not None and way.form != "plain" and not (way.form == "running" and way.keyword):
        return ""
    dense = calls.density_method(dialect.log_prob) or "log_prob"
    method = (way.method or "forward") if way is not None else dense
    method = method if hasattr(obj, method) else ""
    if way is not None and signatures.alike(obj, method):
        return ""
    beside = "" if way is None else way.keyword
    told = set() if way is None else {name for name, _ in (*way.given, *way.bound)}
    names = [name for name in signatures.required(obj, method) if name not in {beside, *told}]
    if way is not None and way.context in signatures.required_by_name(obj, method):
        return way.context
    parts = signatures.unpacked(obj, method) if way is not None and len(names) == 1 else ()
    if len(parts) == 3 and plain(parts[2]) in OPTIONAL:
        return parts[2]  # of a triple with a running log-det
    if len(names) != 2 or sign_of(names[1]):
        return ""
    return names[0 if calls.takes_context_first(dialect.log_prob) else 1]


def optional(inquiry: Inquiry) -> str:
    """The argument besides points that is None by default, of the map or else of the log-density; empty
    where there is none.
    """
    obj, way = inquiry.obj, inquiry.way
    if inquiry.dialect.forward is not None and (
        way is None or way.form not in ("plain", "running")
    ):
        return ""
    method = (way.method or "forward") if way is not None else "log_prob"
    taken = signatures.parameters(obj, method) if hasattr(obj, method) else []
    if way is not None and way.context:
        return "" if way.context in signatures.required_by_name(obj, method) else way.context
    place = 2 if way is not None and way.form == "running" and not way.keyword else 1
    given = taken[place : place + 1]
    if not given or given[0].default is not None:
        return ""
    return str(given[0].name) if may_be_context(given[0].name) else ""


def unheard(inquiry: Inquiry) -> tuple[str, str]:
    """What to say of a context that is None by default, and so is given in cases alone, after the option that gives it:
    where one shape alone fits it, or labels do; both empty where nothing tells that it is a context.
    """
    name = optional(inquiry) if inquiry.facts.context_shape is None else ""
    if not name:
        return "", ""
    known = is_context(name)
    without = f"judged without {name}, which is None by default"
    try:
        if _ignored(inquiry.again()):
            return "", ""
        shape = infer(inquiry.again(), name).context_shape or ()
        if not known and (is_scale(name) or not _answers(inquiry.again(), shape)):
            return "", f"{without}: name a factory that gives it, where it is a context"
        option = ",".join(map(str, shape))
    except Ambiguous:
        return "", "" if known else f"{without}: where it is a context, say ?context= and its size"
    except Exception:  # it takes no numbers, or any, and then does nothing with them
        if inquiry.backend.name != "torch" or not classes(inquiry.again(), name)[0]:
            return "", ""
        if not known:
            return "", f"{without}: where it is a label of points, say ?context={GIVEN_LABELS}"
        option = GIVEN_LABELS
    said = f"{without}, and with it in the cases [context]: "
    return option, f"{said}say ?context={option} to judge it by all laws"


def _ignored(inquiry: Inquiry) -> bool:
    """Whether a call gives the same whatever it is given besides points: what takes all shapes is
    not asked about each.
    """
    try:
        outs = list(_outs(inquiry, ANY))
        return all(same(outs[0], other) for other in outs[1:])
    except Exception:  # it refuses some, or returns other things than arrays
        return False


def _answers(inquiry: Inquiry, shape: Shape) -> bool:
    """Whether calls draw nothing without a context, and of points with theirs return what is finite whatever numbers
    these hold, what is the same among fewer points, and nothing that might be an image of contexts.
    """
    sizes = None, None, shape
    bare, again, out = _outs(inquiry, sizes, rows=MANY)
    *_, fewer = _outs(inquiry, sizes, rows=MANY, kept=ROWS)
    told = [(one, part) for one, part in zip(out, fewer, strict=True) if one is not None]
    finite = all(bool(abs(one).max() < math.inf) for one, _ in told)
    alone = all(same((one[:ROWS],), (part,)) for one, part in told if one.shape)
    return len(out) <= 2 and same(bare, again) and finite and alone


def _outs(
    inquiry: Inquiry, sizes: Sequence[Shape | None], rows: int = ROWS, kept: int | None = None
) -> Iterator[tuple[Any, ...]]:
    """What the map, or else the log-density, returns of points under contexts of several shapes, None among them."""
    obj, way = inquiry.obj, inquiry.way
    ask: Any = inquiry.dialect.log_prob if way is None else way.ask
    rng = np.random.default_rng(0)
    shape = (rows, *inquiry.facts.event_shape)
    x = inquiry.tensor(draw(inquiry.facts.domain, shape, rng))
    for size in sizes:
        given = None if size is None else inquiry.tensor(rng.standard_normal((rows, *size)))
        out = ask(obj, x[:kept] + 0.0, given if given is None else given[:kept])
        yield tuple(out) if isinstance(out, (tuple, list)) else (out,)


def _unused(inquiry: Inquiry) -> bool:
    """Whether the map, as its calls are read, gives the same whatever numbers it is given besides points, as one does
    that looks for labels among them.
    """
    rng, facts = np.random.default_rng(0), inquiry.facts
    x = inquiry.tensor(draw(facts.domain, (ROWS, *facts.event_shape), rng))
    sizes = [facts.context_shape or (), *filter(None, ANY)]
    first, *others = (inquiry.tensor(rng.standard_normal((ROWS, *size))) for size in sizes)
    try:
        forward = settle(inquiry.again(), x, first).dialect.forward
        if forward is None:
            return False
        return same(*(forward(inquiry.again().obj, x + 0.0, one) for one in others))
    except Exception:  # it takes some alone
        return False


def is_mask(name: str) -> bool:
    """Whether an argument is a mask by its name, which no numbers can stand for."""
    return MASKED.fullmatch(plain(name)) is not None


def infer(inquiry: Inquiry, name: str) -> Facts:
    """Facts with the shape of the context that a call asks for as ``name``, and with that of an
    event where only one pair of both is taken.

    Raises `Ambiguous` where several are, `TargetError` where none is.
    """
    obj, facts = inquiry.obj, inquiry.facts
    known, shaped, late = told(obj), bool(facts.event_shape), False
    found: list[Facts] = []
    first: Exception | None = None
    for (event, context), refused in taken_first(inquiry, _pairs(obj, facts)):
        if found and refused and not late:
            break  # what takes it as it is written does
        if found and context != found[-1].context_shape == known and not shaped:
            break  # what an attribute tells is taken
        late = refused
        tried = inquiry.having(event_shape=event, context_shape=context)
        try:
            fits = _fits(tried)
        except _Running:
            raise RunningLogDet(
                f"it adds its log-det to {name}, or takes it from that: say ?running=add or "
                "?running=subtract"
            ) from None
        except Exception as error:  # the shape does not fit; what the first raised is told
            first = first or error
            continue
        if fits:
            found.append(tried.facts)
            if context == known and shaped:
                break
    if len(found) > 1 and not facts.event_shape:
        found = [one for one in found if _drawn_alike(inquiry.again(), one)] or found
    found = [one for one in found if not any(_stretches(one, other, obj) for other in found)]
    alike = {one.context_shape for one in found}
    if len(found) > 1 and len(alike) == 1:  # several events fit, of which the first is judged
        return replace(found[0], guessed=tuple(one.event_shape for one in found[1:GUESSES]))
    if len(found) == 1:
        return found[0]
    if found and _unused(replace(inquiry, facts=found[0])):
        raise TargetError(
            f"it asks for {name}, which numbers do not change anything by: name a factory of a "
            "subclass whose forward takes points alone and passes it on"
        )
    if found:
        options = " or ".join(_option(one, facts) for one in found[:3])
        raise Ambiguous(f"it asks for {name}, and takes contexts of several shapes: say {options}")
    why = "" if first is None else f": it raised {one_line(first, 200)}{place_of(first)}"
    if INDEXED.search(plain(name)):
        raise TargetError(
            f"it asks for {name} besides points, which no drawn numbers can stand for: name a factory "
            "of a subclass whose forward and inverse take points alone and pass it on"
        )
    raise TargetError(
        f"it asks for {name} besides points, and no context of up to {SIZES[-1]} numbers was "
        f"taken{why}. If it is a context, say ?context=2 (and ?event=); if it is a mask, a label or "
        "anything else, name a factory that returns the object with it bound"
    )


def classes(inquiry: Inquiry, name: str) -> tuple[int, Shape]:
    """How many classes there are, of a flow that takes whole numbers (B,) as ``name`` and no other
    contexts, and its event shape; 0 where it takes none. What returns a value alone is left out: a layer that
    normalizes by classes is judged with one of them.
    """
    events = likely_events(inquiry)
    if not inquiry.facts.event_shape:
        events = list(dict.fromkeys([*_drawn_shapes(inquiry.obj), *events]))
    if INDEXED.search(plain(name)):  # lengths of sequences are no classes
        events = []
    for event in events:
        if not event:
            continue
        taken = partial(_takes, inquiry, inquiry.drawn(event))
        if not taken(0):
            continue
        low, high = 0, 1
        while high < MOST and taken(high):
            low, high = high, 2 * high
        if high >= MOST:
            return ENOUGH, event
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if taken(middle) else (low, middle)
        return high, event
    return 0, inquiry.facts.event_shape


def likely_events(inquiry: Inquiry) -> list[Shape]:
    """The event shape that is known, or those that it may have, likeliest first."""
    if inquiry.facts.event_shape:
        return [inquiry.facts.event_shape]
    likely = shapes(inquiry.obj, inquiry.state)
    return list(dict.fromkeys([*((size,) for size in EVENTS), *likely]))


def _drawn_shapes(obj: Any) -> Iterator[Shape]:
    """The shape of what an object draws under labels, however it is asked for that."""
    import torch

    labels = torch.zeros(ROWS, dtype=torch.long)
    for asked in ((labels,), (ROWS, labels), (labels, ROWS)):
        with contextlib.suppress(Exception):  # it has no sampler, or is asked otherwise
            drawn = tuple(obj.sample(*asked).shape)
            if drawn[:1] == (ROWS,) and len(drawn) > 1:
                yield drawn[1:]


def _takes(inquiry: Inquiry, x: Any, label: int) -> bool:
    context = x.new_full((len(x), 1), float(label))
    try:
        fitting = fit(inquiry.knowing(**{CLASSES: str(label + 1)}), x, context)
        if fitting is None:
            return False
        settled = fitting.dialect
        if settled.inverse is not None or settled.log_prob is not None:
            return True
        return (
            settled.forward is not None and settled.forward(inquiry.obj, x, context)[1] is not None
        )
    except Exception:  # it takes no such label
        return False


def same(one: Any, other: Any) -> bool:
    """Whether two calls gave the same value and log-det."""
    if one is None or other is None:
        return one is other
    for a, b in zip(one, other, strict=True):
        if (a is None) != (b is None):
            return False
        if a is not None and (a.shape != b.shape or bool(((a - b).abs() > 1e-9).any())):
            return False
    return True


def _drawn_alike(inquiry: Inquiry, facts: Facts) -> bool:
    """Whether its samples under a context are events of this shape, however it is asked for them."""
    drawn = np.random.default_rng(0).standard_normal((ROWS, *(facts.context_shape or ())))
    obj, context, event = inquiry.obj, inquiry.tensor(drawn), facts.event_shape
    for asked in ((2, context), (context,), (context, 2)):
        try:
            shape = tuple(obj.sample(*asked).shape)
        except Exception:  # it has no sampler, or is asked otherwise
            continue
        return len(shape) > len(event) and shape[len(shape) - len(event) :] == event
    return False


def in_order(inquiry: Inquiry, name: str) -> Dialect:
    """How its log-density is asked: with its context first, where what it draws under contexts is what it takes second,
    and not what it takes first; where that tells nothing, where a sampler, or a network, takes what is called so without
    a point.
    """
    obj, dialect = inquiry.obj, inquiry.dialect
    method = calls.density_method(dialect.log_prob)
    taken = signatures.required(obj, method) if method else []
    if len(taken) != 2 or name not in taken or dialect.forward is not None:
        return dialect
    other = replace(dialect, log_prob=partial(calls.context_first, call=dialect.log_prob))
    fitting = []
    unknown = not inquiry.facts.event_shape and method == "log_prob"
    for one in (dialect, other) if unknown else ():
        with contextlib.suppress(Exception):  # it takes no such pair, or several
            if _drawn_alike(inquiry.again(), infer(replace(inquiry.again(), dialect=one), name)):
                fitting.append(one)
    if len(fitting) == 1:
        return fitting[0]
    drawing = [one for one in (calls.method_of(dialect.sample), "icdf") if one]
    alone = [signatures.required(obj, one)[:1] for one in drawing]
    if signatures.taken_by(obj):
        alone.append(signatures.required(obj, "forward"))
    return other if taken[:1] in alone else dialect


def _stretches(one: Facts, other: Facts, obj: Any) -> bool:
    """Whether calls that take other shapes take these by stretching one number over what is there."""
    event, context = one.event_shape == (1,), one.context_shape == (1,) != told(obj)
    events, contexts = (
        one.event_shape == other.event_shape,
        one.context_shape == other.context_shape,
    )
    return (event and contexts and not events) or (context and events and not contexts)


def _option(found: Facts, facts: Facts) -> str:
    event, context = (
        ",".join(map(str, shape or ())) for shape in (found.event_shape, found.context_shape)
    )
    return f"?context={context}" if facts.event_shape else f"?event={event}&context={context}"


def told(obj: Any) -> Shape | None:
    """The shape that an attribute tells."""
    for name, value in getattr(obj, "__dict__", {}).items():
        if plain(name) in CONTEXTS and type(value) is int and value > 0:
            return (value,)
    return None


def _pairs(obj: Any, facts: Facts) -> Iterator[tuple[Shape, Shape]]:
    known = told(obj)
    sizes: Sequence[Shape] = [(size,) for size in SIZES]
    if facts.event_shape:
        tried = dict.fromkeys([known or (1,), *sizes])
        yield from ((facts.event_shape, size) for size in tried)
        if len(facts.event_shape) == 2:  # of sequences a context is stretched over positions
            yield from ((facts.event_shape, (*size, 1)) for size in tried)
        return
    for contexts in ([known] if known else [], [(size,) for size in PAIRED]):
        yield from (((features,), context) for features in EVENTS for context in contexts)
        yield from (((), context) for context in contexts)


def _fits(inquiry: Inquiry) -> bool:
    rng, facts = np.random.default_rng(0), inquiry.facts
    x = inquiry.tensor(draw(facts.domain, (ROWS, *facts.event_shape), rng))
    points = x, inquiry.tensor(rng.standard_normal((ROWS, *(facts.context_shape or ()))))
    fitting = fit(inquiry, *points)
    forward = None if fitting is None else fitting.dialect.forward
    if forward is None:
        return fitting is not None
    ladj = forward(inquiry.obj, *points)[1]
    if ladj is None:
        return True
    if _accumulates(forward, inquiry.obj, *points):
        raise _Running
    return math.prod(getattr(ladj, "shape", ())) in (1, ROWS, math.prod(x.shape))


class _Running(Exception):
    """What is added to a log-det is no context."""


def _accumulates(call: Any, obj: Any, x: Any, context: Any) -> bool:
    """Whether the log-det moves by what the second argument moves by, and the value does not."""
    # What adds in place writes to what it is given.
    (value, ladj), (other, moved) = call(obj, x, context + 0), call(obj, x, context + 1)
    if ladj.shape != moved.shape or not bool((value == other).all()):
        return False
    return bool(((moved - ladj).abs() - 1).abs().max() < 1e-4)
