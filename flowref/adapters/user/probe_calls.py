"""Calling conventions of a user's object, found by calls at one point, and whether the calls are
consistent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from flowref.adapters.common import onto_sphere
from flowref.adapters.user import calls
from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.arrays import computes_in_arrays, through_arrays
from flowref.adapters.user.conventions.call_evidence import NO_LADJ, Settled, settle_map
from flowref.adapters.user.conventions.call_forms import GIVEN_ONES, Chosen
from flowref.adapters.user.conventions.encoder_decoder import encodes, map_of_density
from flowref.adapters.user.conventions.evidence_bounds import settle_bound
from flowref.adapters.user.conventions.labels import CLASSES, labels_of, with_labels
from flowref.adapters.user.conventions.method_calls import (
    called_with,
    log_prob_column,
    of_single_points,
)
from flowref.adapters.user.conventions.offset import without
from flowref.adapters.user.conventions.one_way_densities import onward_of
from flowref.adapters.user.conventions.samples import sampler, settle_sample, settle_sample_log_prob
from flowref.adapters.user.conventions.scores import settle_score
from flowref.adapters.user.conventions.search import named_density
from flowref.adapters.user.conventions.stated_functions import settle_stated_functions
from flowref.adapters.user.conventions.sums import settle_sum
from flowref.adapters.user.conventions.times import with_times
from flowref.adapters.user.inquiry import ROWS, Inquiry
from flowref.adapters.user.parts import made_of
from flowref.adapters.user.processes.noise_processes import process_words
from flowref.model import (
    Dialect,
    FlowrefError,
    Shape,
    TargetError,
    UnknownShape,
    one_line,
    user_code_location,
)


def resolve_calls(inquiry: Inquiry, x: Any, context: Any, shaped: bool = True) -> Settled:
    """The calling conventions of an object, as far as calls show them. ``shaped``: its map is known to
    accept this shape, so that a raising log-density is a failure.
    """
    if (count := inquiry.chosen.get(CLASSES)) and context is not None:
        settled = resolve_calls(inquiry.without(CLASSES), x, labels_of(context, int(count)), shaped)
        return replace(settled, dialect=with_labels(settled.dialect, int(count)))
    inquiry = _given_alike(_mapping(inquiry, x, context))
    obj, chosen = inquiry.obj, inquiry.chosen
    settled = Settled(inquiry.dialect)
    if settled.dialect.forward is not None:
        settled = _settle_map(inquiry, x, context)
    if inquiry.dialect.log_prob is None and settled.dialect.log_prob is not None:
        settled = replace(settled, dialect=_with_samples(obj, settled.dialect, chosen))
    if settled.dialect.log_prob is not None:
        settled = _settle_density(inquiry, settled, x, context, shaped)
    dialect = settled.dialect
    if dialect.sample is not None:
        dialect, words = settle_sample(obj, dialect, x, context, chosen)
        settled = settled.saying(*words)
    dialect, words = settle_sample_log_prob(obj, dialect, x, context, chosen)
    settled = settled.saying(*words)
    dialect = with_times(obj, dialect, x, context, chosen)
    if context is None:
        dialect, words = settle_stated_functions(obj, dialect, x)
        settled = settled.saying(*words)
        dialect, words = settle_bound(obj, dialect, x)
        settled = settled.saying(*words)
    dialect, words, hints = settle_score(obj, dialect, x, context, chosen)
    words = (*words, *process_words(dialect))
    settled = replace(settled.saying(*words), hints=(*settled.hints, *hints))
    if "offset" in chosen:
        dialect, said = without(dialect, chosen["offset"], math.prod(x.shape[1:]))
        settled = settled.saying(said)
    return replace(settled, dialect=dialect)


def _settle_density(
    inquiry: Inquiry, settled: Settled, x: Any, context: Any, shaped: bool
) -> Settled:
    """The conventions of the log-density; without it if it raises and the map does not."""
    obj, dialect = inquiry.obj, settled.dialect
    if calls.method_of(dialect.log_prob) and computes_in_arrays(obj, dialect.log_prob, x, context):
        dialect = replace(dialect, log_prob=partial(through_arrays, ask=dialect.log_prob))
    ask: Any = dialect.log_prob
    try:
        out = ask(obj, x, context)
    except Exception as error:
        if (named := named_density(obj, calls.method_of(ask), x, context)) is None:
            if dialect.forward is None:
                raise
            # NotImplementedError says nothing about shapes.
            if not shaped and not isinstance(error, NotImplementedError):
                raise NoWayBack(error) from error
            broken = {"log_prob": f"{one_line(error, 200)}{user_code_location(error)}"}
            return replace(settled, dialect=replace(dialect, log_prob=None), broken=broken)
        ask, out, words = named
        settled = settled.saying(words)
    if getattr(ask, "func", None) is calls.log_prob_of_entries:
        method = calls.density_method(ask)
        settled = settled.saying(
            f"{method}({', '.join(signatures.required(obj, method))}) of a point"
        )
    shape, method = tuple(getattr(out, "shape", ())), calls.method_of(ask)
    if method and shape in ((len(x), 1), (1, len(x))):
        ask = partial(log_prob_column, method=method)
        settled = settled.saying(f"log_prob ({'B,1' if shape[1] == 1 else '1,B'}), squeezed")
    elif getattr(ask, "func", None) is through_arrays and _squeezes(obj, ask, x, context):
        ask = partial(of_single_points, ask=ask)
        settled = settled.saying("log_prob of one point is one number")
    each, said, bug = settle_sum(obj, ask, x, context, inquiry.chosen)
    settled = replace(settled, dialect=replace(dialect, log_prob=each))
    return replace(settled.saying(*filter(None, [said])), promises=settled.promises | bug)


def _squeezes(obj: Any, ask: Any, x: Any, context: Any) -> bool:
    """Whether the log-density of one point is a scalar, as in scipy."""
    try:
        out = ask(obj, x[:1], None if context is None else context[:1])
    except Exception:  # rejecting a single point is tested by laws
        return False
    return tuple(getattr(out, "shape", (1,))) == ()


def _given_alike(inquiry: Inquiry) -> Inquiry:
    """The inquiry with what the map was found to need, a mask of ones or a label, for the log-density as
    well.
    """
    name, _, kind = inquiry.chosen.get(GIVEN_ONES, "").partition("=")
    method = calls.method_of(inquiry.dialect.log_prob)
    if not name or not method or name not in signatures.required(inquiry.obj, method):
        return inquiry
    context = signatures.keyword_context_parameter(inquiry.obj, method, 1)
    dense = partial(called_with, method=method, bound=((name, kind),), keyword=context)
    return replace(inquiry, dialect=replace(inquiry.dialect, log_prob=dense))


def _mapping(inquiry: Inquiry, x: Any, context: Any) -> Inquiry:
    """The inquiry of a density with the convention of its map, if that is a pair of methods such as encode
    and decode, or the call of the object; unchanged if it has no map.
    """
    from flowref.adapters.user.adapter import dialect_of

    obj, dialect, chosen = inquiry.obj, inquiry.dialect, inquiry.chosen
    if dialect.forward is not None or dialect.log_prob is None or "forward" in chosen:
        return inquiry
    if onward_of(obj, dialect.log_prob, x, context):
        inquiry = inquiry.knowing(forward="forward")
    elif context is None and (pair := map_of_density(obj, x)):
        inquiry = inquiry.knowing(forward=pair[0], inverse=chosen.get("inverse", pair[1]))
    else:
        return inquiry
    return replace(inquiry, dialect=dialect_of(obj, inquiry.chosen) or dialect)


def _with_samples(obj: Any, dialect: Dialect, chosen: Chosen) -> Dialect:
    """The dialect of a density found by calls, with its sampler and base."""
    sample = sampler(obj, chosen) or dialect.sample
    return replace(dialect, sample=sample, **calls.of_base(obj))


def _settle_map(inquiry: Inquiry, x: Any, context: Any) -> Settled:
    obj, dialect, facts, chosen = inquiry.obj, inquiry.dialect, inquiry.facts, inquiry.chosen
    volume = bool(facts.promises.get("volume-preserving"))
    if dialect.log_prob is not None and not chosen.keys() & {"returns", "forward"}:
        run = obj if callable(obj) else getattr(obj, "forward", None)
        try:
            out = None if run is None else run(x) if context is None else run(x, context)
        except Exception:  # it may need more arguments
            out = None
        if len(getattr(out, "shape", (0, 0))) <= 1 < len(x.shape):
            # A density whose forward returns its log-likelihood.
            return Settled(replace(dialect, forward=None, inverse=None, base_log_prob=None))
    try:
        settled = settle_map(obj, dialect, x, context, chosen, volume)
    except TargetError:
        if dialect.log_prob is None or "forward" in chosen or not encodes(obj):
            raise
        # A density that has an encoder as well.
        return Settled(replace(dialect, forward=None, inverse=None, base_log_prob=None))
    if facts.normalizer is not None:
        said = tuple(one for one in settled.conventions if one != NO_LADJ)
        return replace(settled, conventions=said, hints=())
    if settled.dialect.parts is not None and not made_of(obj, settled, x, context):
        return replace(settled, dialect=replace(settled.dialect, parts=None))
    return settled


class NoWayBack(Exception):
    """The map accepts a shape at which the inverse, or the log-density, raises ``error``; ``sampled``: the
    shapes of samples.
    """

    def __init__(self, error: Exception, *sampled: Shape) -> None:
        super().__init__(str(error))
        self.error, self.sampled = error, sampled


def resolve_object(inquiry: Inquiry, x: Any, context: Any) -> Settled | None:
    """The calling conventions, if all calls accept a batch of events and keep the number of entries; None
    if one returns something else.

    Raises the exception of a call, or `NoWayBack` if only the map accepts the shape.
    """
    obj, settled = inquiry.obj, resolve_calls(inquiry, x, context, shaped=False)
    dialect, latent = settled.dialect, settled.latent
    if latent is not None and len(latent) != ROWS:
        return None
    if latent is not None and math.prod(latent.shape) != math.prod(x.shape):
        raise TargetError(
            f"forward maps an event of shape {tuple(x.shape[1:])} to {tuple(latent.shape[1:])}, and a "
            f"bijection keeps the number of entries{onto_sphere.advice(latent)}"
        )
    if latent is not None and dialect.inverse is not None:
        try:
            back, _ = dialect.inverse(obj, latent, context)
        except Exception as error:  # other shapes will show the cause
            raise NoWayBack(error) from error
        if back.shape != x.shape:
            return None
    if dialect.log_prob is not None:
        if math.prod(dialect.log_prob(obj, x, context).shape) != ROWS:
            return None
        if dialect.sample is not None and context is None:
            _samples_fit(obj, dialect, x)
    return settled


def _samples_fit(obj: Any, dialect: Dialect, x: Any) -> None:
    try:
        drawn = dialect.sample(obj, 2, None)  # type: ignore[misc]  # the caller checked
        shape = tuple(drawn.shape)
    except Exception:  # samplers are tested by laws
        return
    if shape != (2, *x.shape[1:]):
        other = (shape[1:],) if shape[:1] == (2,) else ()
        raise NoWayBack(ValueError(f"sample(2) returned shape {shape}"), *other)


def unknown_shape(obj: Any, raised: Sequence[Exception], more: str = "") -> UnknownShape:
    """The error for an object whose calls accept none of the tried events."""
    own = f"{raised_most(raised)}; " if raised else ""
    return UnknownShape(
        f"{own}the event shape of {type(obj).__name__} is not known; give it as ?event=3 or "
        f"?event=2,4,4 (or --event 3), or as an attribute event_shape{more}"
    )


def raised_most(raised: Sequence[Exception]) -> str:
    """The most frequent error of an object with its line in the user's file; the first among equals."""
    sentences = [
        str(error)
        if isinstance(error, FlowrefError)
        else f"it raised {one_line(error, 200)}{user_code_location(error)}"
        for error in raised
    ]
    return max(dict.fromkeys(sentences), key=sentences.count)
