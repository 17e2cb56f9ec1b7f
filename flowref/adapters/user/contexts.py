"""Which argument besides points is required by a call, or is optional and may be a context."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from flowref.adapters.user import calls
from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.labels import GIVEN_LABELS
from flowref.adapters.user.conventions.names import (
    OPTIONAL,
    is_context,
    is_scale,
    may_be_context,
    normalized_name,
    sign_of,
)
from flowref.adapters.user.extras import (
    ANY,
    INDICES,
    LABELLED,
    NUMBERS,
    drawn_alike,
    given,
    same_outputs,
)
from flowref.adapters.user.inquiry import ROWS, Inquiry
from flowref.model import Ambiguous, Dialect, Shape, TargetError

# Points and contexts for checking that calls are finite at all of them.
MANY = 256


def wanted(inquiry: Inquiry) -> str:
    """The required argument besides points of the map, or of the log-density; empty if there is none."""
    obj, dialect, way = inquiry.obj, inquiry.dialect, inquiry.way
    if getattr(dialect.log_prob, "func", None) is calls.log_prob_of_entries:
        return ""
    if way is not None and way.form != "plain" and not (way.form == "running" and way.keyword):
        return ""
    dense = calls.density_method(dialect.log_prob) or "log_prob"
    method = (way.method or "forward") if way is not None else dense
    method = method if hasattr(obj, method) else ""
    if way is not None and signatures.point_part_count(obj, method):
        return ""
    beside = "" if way is None else way.keyword
    known = set() if way is None else {name for name, _ in (*way.given, *way.bound)}
    names = [name for name in signatures.required(obj, method) if name not in {beside, *known}]
    if way is not None and way.context in signatures.required_by_name(obj, method):
        return way.context
    parts = signatures.unpacked(obj, method) if way is not None and len(names) == 1 else ()
    if len(parts) == 3 and normalized_name(parts[2]) in OPTIONAL:
        return parts[2]  # in a triple with a running log-det
    if len(names) != 2 or sign_of(names[1]):
        return ""
    return names[0 if calls.takes_context_first(dialect.log_prob) else 1]


def optional(inquiry: Inquiry) -> str:
    """The argument besides points that is None by default, of the map or else of the log-density; empty if
    there is none.
    """
    obj, way = inquiry.obj, inquiry.way
    if inquiry.dialect.forward is not None and (
        way is None or way.form not in ("plain", "running")
    ):
        return ""
    method = (way.method or "forward") if way is not None else "log_prob"
    taken = signatures.method_parameters(obj, method) if hasattr(obj, method) else []
    if way is not None and way.context:
        return "" if way.context in signatures.required_by_name(obj, method) else way.context
    place = 2 if way is not None and way.form == "running" and not way.keyword else 1
    second = taken[place : place + 1]
    if not second or second[0].default is not None:
        return ""
    return str(second[0].name) if may_be_context(second[0].name) else ""


def unheard(inquiry: Inquiry) -> tuple[str, str]:
    """The option for an optional context and a hint to set it, if a single shape, or labels, fit; both
    empty if calls do not show a context.
    """
    name = optional(inquiry) if inquiry.facts.context_shape is None else ""
    if not name:
        return "", ""
    known = is_context(name)
    without = f"judged without {name}, which is None by default"
    try:
        if _ignored(inquiry.again()):
            return "", ""
        shape = given(inquiry.again(), name, (NUMBERS,)).facts.context_shape or ()
        if not known and (is_scale(name) or not _answers(inquiry.again(), shape)):
            return "", f"{without}: name a factory that gives it, where it is a context"
        option = ",".join(map(str, shape))
    except Ambiguous:
        return "", "" if known else f"{without}: where it is a context, say ?context= and its size"
    except Exception:  # it accepts no numbers, or ignores them
        try:
            given(inquiry.again(), name, (LABELLED,))
        except TargetError:
            return "", ""
        if not known:
            return "", f"{without}: where it is a label of points, say ?context={GIVEN_LABELS}"
        option = GIVEN_LABELS
    said = f"{without}, and with it in the cases [context]: "
    return option, f"{said}say ?context={option} to judge it by all laws"


def _ignored(inquiry: Inquiry) -> bool:
    """Whether the argument has no effect; then shapes need not be tried one by one."""
    try:
        outs = list(_outs(inquiry, ANY))
        return all(same_outputs(outs[0], other) for other in outs[1:])
    except Exception:  # it raises for some, or does not return arrays
        return False


def _answers(inquiry: Inquiry, shape: Shape) -> bool:
    """Whether calls are deterministic without a context and finite with any, independent of the other
    points, and not functions of the context alone.
    """
    sizes = None, None, shape
    bare, again, out = _outs(inquiry, sizes, rows=MANY)
    *_, fewer = _outs(inquiry, sizes, rows=MANY, kept=ROWS)
    pairs = [(one, part) for one, part in zip(out, fewer, strict=True) if one is not None]
    finite = all(bool(abs(one).max() < math.inf) for one, _ in pairs)
    alone = all(same_outputs((one[:ROWS],), (part,)) for one, part in pairs if one.shape)
    return len(out) <= 2 and same_outputs(bare, again) and finite and alone


def _outs(
    inquiry: Inquiry, sizes: Sequence[Shape | None], rows: int = ROWS, kept: int | None = None
) -> Iterator[tuple[Any, ...]]:
    """Returns of the map, or else of the log-density, at points under contexts of several shapes, None
    among them.
    """
    obj, way = inquiry.obj, inquiry.way
    ask: Any = inquiry.dialect.log_prob if way is None else way.ask
    x, *contexts = inquiry.points(*(size for size in sizes if size is not None), rows=rows)
    for size in sizes:
        out = ask(obj, x[:kept] + 0.0, None if size is None else contexts.pop(0)[:kept])
        yield tuple(out) if isinstance(out, (tuple, list)) else (out,)


def convention_with_context_order(inquiry: Inquiry, name: str) -> Dialect:
    """The dialect with the order of points and context in log_prob: context first, if its samples under
    contexts fit its second argument but not its first; if that is undecided, by the arguments of its
    sampler or network.
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
        with contextlib.suppress(Exception):  # it accepts no such pair, or several
            asked = given(replace(inquiry.again(), dialect=one), name, (NUMBERS, INDICES))
            if drawn_alike(replace(inquiry.again(), facts=asked.facts)):
                fitting.append(one)
    if len(fitting) == 1:
        return fitting[0]
    drawing = [one for one in (calls.method_of(dialect.sample), "icdf") if one]
    alone = [signatures.required(obj, one)[:1] for one in drawing]
    if signatures.taken_by(obj):
        alone.append(signatures.required(obj, "forward"))
    return other if taken[:1] in alone else dialect
