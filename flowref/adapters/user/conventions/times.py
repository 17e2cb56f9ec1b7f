"""Maps over a time interval that can be evaluated over parts of it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from flowref.adapters.user.conventions import method_calls, signatures
from flowref.adapters.user.conventions.call_forms import Chosen
from flowref.adapters.user.conventions.roles import forward_call_form
from flowref.model import Dialect

# A part of the interval, and the relative tolerance.
PART, OFF = (0.0, 0.5), 1e-6


def with_times(obj: Any, dialect: Dialect, x: Any, context: Any, chosen: Chosen) -> Dialect:
    """The dialect of a map whose forward takes the ends of its time interval, with calls for parts of it
    and for intermediate states; unchanged if calls at other times show nothing.
    """
    way = None if dialect.forward is None or "forward" in chosen else forward_call_form(obj, chosen)
    if way is None or way.method:
        return dialect
    span = next((name for name, kind in way.bound if kind == "span"), "")
    ends: Any = span or signatures.time_interval_parameters(obj, "forward")
    if not ends:
        return dialect
    call = dialect.forward
    if not span and way.usual:
        call = replace(way, given=(*way.given, *ends)).dialect_function()
    part = partial(between, call=call, ends=ends)
    if not _covers_whole_time(obj, dialect.forward, part, x, context):
        return dialect
    dialect = replace(dialect, between=part)
    stages = partial(
        trajectory,
        ask=way.ask,
        ends=span,
    )
    if span and _stages(obj, stages, x, context):
        stages = partial(
            stages, with_log_dets=_log_dets_accumulate(obj, dialect.forward, stages, x, context)
        )
        dialect = replace(dialect, trajectory=stages)
    return dialect


def _covers_whole_time(obj: Any, forward: Any, part: Any, x: Any, context: Any) -> bool:
    """Whether forward equals the call over the whole interval, and differs over a part."""
    try:
        usual, whole = forward(obj, x, context), part(obj, x, context, 0.0, 1.0)
        half = part(obj, x, context, *PART)
    except Exception:  # times may have to be integers
        return False
    if whole[0].shape != usual[0].shape or half[0].shape != usual[0].shape:
        return False
    room = OFF * (1 + float(usual[0].abs().max()))
    if not float((whole[0] - usual[0]).abs().max()) <= room:
        return False
    return float((half[0] - usual[0]).abs().max()) > room


def _stages(obj: Any, stages: Any, x: Any, context: Any) -> bool:
    try:
        found = stages(obj, x, context, (0.0, 0.5, 1.0))[0]
    except Exception:
        return False
    return tuple(getattr(found, "shape", ())) == (3, *x.shape)


def _log_dets_accumulate(obj: Any, forward: Any, stages: Any, x: Any, context: Any) -> bool:
    """Whether the log-dets stacked with the states at both ends finish with that of the whole interval, in
    forward's form.
    """
    ladj = stages(obj, x, context, (0.0, 1.0), with_log_dets=True)[1]
    whole = forward(obj, x, context)[1]
    if ladj is None or tuple(getattr(whole, "shape", ())) != (len(x),):
        return False
    return float((ladj[-1] - whole).abs().max()) <= OFF * (1 + float(whole.abs().max()))


def between(obj: Any, x: Any, context: Any, start: float, end: float, call: Any, ends: Any) -> Any:
    """A call over a part of its interval, from fraction ``start`` to ``end``. ``ends``: the parameters for
    both ends with their values, or the name of one for both.
    """
    if isinstance(ends, str):
        return retimed(call, {}, {ends: f"{method_calls.TIMES}{start!r} {end!r}"})(obj, x, context)
    (first, low), (last, high) = ends
    times = {first: low + start * (high - low), last: low + end * (high - low)}
    return retimed(call, times, {})(obj, x, context)


def trajectory(
    obj: Any, x: Any, context: Any, shares: Any, ask: Any, ends: str, with_log_dets: bool = False
) -> Any:
    """The states at several times, stacked, and their log-dets; None unless ``with_log_dets`` and one per state."""
    import torch

    times = method_calls.TIMES + " ".join(repr(float(share)) for share in shares)
    out = retimed(ask, {}, {ends: times})(obj, x, context)
    parts = [
        torch.stack(list(part)) if isinstance(part, (tuple, list)) else part
        for part in (out if isinstance(out, tuple) else (out,))[:2]
    ]
    ladj = parts[1] if with_log_dets and len(parts) > 1 else None
    if ladj is None or ladj.shape[:2] != parts[0].shape[:2] or ladj[0, 0].numel() != 1:
        return parts[0], None
    return parts[0], ladj.reshape(ladj.shape[:2])


def retimed(call: Any, given: Any, bound: Any) -> Any:
    """A partial function with its fixed keywords, and given parameters, replaced at any depth."""
    if not isinstance(call, partial):
        return call
    words = {name: retimed(value, given, bound) for name, value in call.keywords.items()}
    if given and "given" in words:
        words["given"] = tuple((dict(words["given"]) | given).items())
    if bound and "bound" in words:
        words["bound"] = tuple((dict(words["bound"]) | bound).items())
    return partial(call.func, *call.args, **words)
