"""Calling conventions shown by two calls of a copy: which call is the inverse, and how values and log-dets
are returned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from flowref.adapters.common.documentation import NEGATED, documents
from flowref.adapters.common.onto_simplex import onto_simplex
from flowref.adapters.user.conventions import method_calls
from flowref.adapters.user.conventions.arrays import computes_in_arrays, goes_back_in_arrays
from flowref.adapters.user.conventions.call_forms import Chosen
from flowref.adapters.user.conventions.encoder_decoder import ENCODE, refuse_autoencoder
from flowref.adapters.user.conventions.forms import formed
from flowref.adapters.user.conventions.inverse import way_back
from flowref.adapters.user.conventions.readings import is_array
from flowref.adapters.user.conventions.roles import forward_call_form, inverse_call_forms
from flowref.adapters.user.conventions.search import BACK_ALONE, Request, candidates, resolve
from flowref.adapters.user.conventions.separate_log_dets import LOG_DET, OF_INVERSE, likely_of
from flowref.adapters.user.conventions.signs import refuse_added
from flowref.adapters.user.conventions.simplex import DECLARED, FROM, shortened
from flowref.adapters.user.conventions.single_calls import Once
from flowref.adapters.user.conventions.volumes import agrees
from flowref.model import Ambiguous, Dialect, Shape, TargetError

IN_ARRAYS = "calls on arrays of numpy"
NO_LADJ = "no log-det was found: nothing about volume was checked"


@dataclass(frozen=True)
class Settled:
    """The calling conventions of an object.

    ``dialect``: its calls;
    ``latent``: the result of forward, None for a density;
    ``ladj_event`` and ``promises``: facts of its log-det;
    ``conventions``: remarks on the target's line; ``hints``: what to declare for calls that were not found;
    ``broken``: ability -> exception;
    ``left``: a remark on an unrecognized return of the size of a point.
    """

    dialect: Dialect
    latent: Any = None
    ladj_event: Shape = ()
    promises: dict[str, Any] = field(default_factory=dict)
    conventions: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    broken: dict[str, str] = field(default_factory=dict)
    left: str = ""

    def saying(self, *words: str) -> Settled:
        """The conventions with more remarks, without duplicates."""
        return replace(self, conventions=tuple(dict.fromkeys((*self.conventions, *words))))


def settle_map(
    obj: Any, dialect: Dialect, x: Any, context: Any, chosen: Chosen, volume: bool = False
) -> Settled:
    """The calling conventions of forward and inverse.

    ``volume``: volume is declared to be preserved, so that a missing log-det is zero.
    """
    way = forward_call_form(obj, chosen)
    if way is None:
        raise TargetError("it has no forward")
    if way.form in ("plain", "pair") and (
        computes_in_arrays(obj, way.ask, x, context)
        or any(
            goes_back_in_arrays(obj, way.ask, back.ask, x, context)
            for back in inverse_call_forms(obj, way, chosen)
            if back.form == way.form
        )
    ):
        said = f"{way.words}, on arrays of numpy" if way.form == "pair" else way.words or IN_ARRAYS
        way = replace(way.on_arrays(), words=said)
    request = Request(obj, x, x, context, chosen, volume)
    resolved = resolve(request, [*candidates(request, way)])
    if resolved is None:
        raise TargetError(f"{way.method or 'forward'} returns nothing of a map")
    way, once = resolved.way, Once(obj)
    latent, ladj = once(resolved.function, x, context)
    if not is_array(latent):
        raise TargetError(f"forward returned a {type(latent).__name__}; expected an array")
    if way.method == ENCODE and "forward" not in chosen:
        refuse_autoencoder(obj, x, latent, ladj)
    columns = ["the batch axis is the last"] if method_calls.call_with_columns in way.around else []
    words = [*filter(None, [way.words]), *columns, *resolved.words]
    dialect = replace(dialect, forward=resolved.function, inverse=None)
    if resolved.log_prob is not None and dialect.log_prob is None:
        dialect = replace(dialect, log_prob=resolved.log_prob)
    back: Any = None
    hints: list[str] = []
    shorter = onto_simplex(x, latent, DECLARED in chosen)
    # The last entry of a simplex map is dropped later.
    longer = FROM in chosen and latent.shape[-1] == x.shape[-1] - 1
    if shorter or longer or math.prod(latent.shape) == math.prod(x.shape):
        back, more, hints = way_back(once, way, resolved, latent, request)
        words += more
        dialect = replace(dialect, inverse=back)
    if dialect.log_prob is None and resolved.unjudged:
        hints = [*hints, resolved.unjudged]
    if way.sign == "subtract" and "running" not in chosen and back is not None:
        refuse_added(obj, dialect, way, x, latent, context)
    if shorter:
        dialect, said = shortened(obj, dialect, x, context)
        latent, back = latent[..., :-1], dialect.inverse
        words.append(said)
    hints = [*hints, *filter(None, [resolved.left])]
    settled = Settled(dialect, latent, left=resolved.left)
    if ladj is None and (back is None or once(back, latent, context)[1] is None):
        words = [word for word in words if word != BACK_ALONE]
        if back is not None and not volume and LOG_DET not in chosen and OF_INVERSE not in chosen:
            refuse_unread(obj)
        return replace(settled, conventions=(*dict.fromkeys(words), NO_LADJ), hints=tuple(hints))
    dialect, form, more = formed(once, dialect, (x, latent, context), chosen)
    if negated := _documented(once.obj, dialect, x, context):
        dialect = negated
        words.append("log-det with the other sign, as its documentation says")
    settled = replace(settled, dialect=dialect)
    words += more
    promises: dict[str, Any] = {"scalar-ladj": True} if form.constant else {}
    if resolved.writes:
        promises["writes"] = resolved.writes
    return replace(
        settled,
        ladj_event=form.event,
        promises=promises,
        conventions=tuple(dict.fromkeys(words)),
        hints=tuple(hints),
    )


def refuse_unread(obj: Any) -> None:
    """Raise `Ambiguous` if a method or attribute is named after a log-det, but calls do not show of which
    direction.
    """
    if likely := likely_of(obj):
        one = likely[0]
        raise Ambiguous(
            f"{', '.join(likely)} of {type(obj).__name__} is named after a log-det, and calls do not show for which one: say "
            f"?log_det={one} if it is that of forward, ?inverse_log_det={one} if it is that of inverse, each at its own "
            "input, or ?log_det=none"
        )


def _documented(obj: Any, dialect: Dialect, x: Any, context: Any) -> Dialect | None:
    """The dialect with negated log-dets, if the documentation states that sign and calls agree; else None."""
    if not documents(obj, NEGATED, "forward", "inverse") or dialect.forward is None:
        return None
    turned = partial(method_calls.negated, call=dialect.forward)
    if agrees(obj, dialect.forward, x, context) or not agrees(obj, turned, x, context):
        return None
    back = None if dialect.inverse is None else partial(method_calls.negated, call=dialect.inverse)
    return replace(dialect, forward=turned, inverse=back)
