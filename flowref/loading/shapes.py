"""Which shapes a user's object takes: of a context that calls ask for, of padding, and of an event, as calls of a copy
show them.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.adapters.user.calls import density_method, takes_context_first
from flowref.adapters.user.conventions.call_forms import GIVEN_ONES, MASKED_OUT
from flowref.adapters.user.conventions.labels import CLASSES, GIVEN_LABELS
from flowref.adapters.user.conventions.simplex import DECLARED, FROM
from flowref.adapters.user.event_shapes import alternatives, infer_shape
from flowref.adapters.user.inquiry import Inquiry
from flowref.loading.instance import Instance
from flowref.model import (
    Ambiguous,
    Array,
    Dialect,
    Facts,
    Shape,
    SpecError,
    Support,
    Target,
    TargetError,
)

# So many samples tell whether they lie on a simplex, and by how much their sums may be off.
DRAWN, OFF = 7, 1e-5


def shaped(instance: Instance, dialect: Dialect, facts: Facts) -> Inquiry:
    """What is asked of an object once the shapes are known that it takes. Raises `TargetError` or `SpecError` in one
    sentence where calls do not show them.
    """
    from flowref.adapters.common.normalizers import statistics_layers
    from flowref.adapters.user import contexts

    inquiry = _begun(instance, dialect, facts)
    options = dict(instance.source.target.options)
    dtype = inquiry.tensor(np.zeros(1)).dtype
    statistics_layers.refuse(inquiry.obj, dialect, str(instance.source.target), dtype)
    wanted = contexts.wanted(inquiry)
    if wanted:
        inquiry = replace(inquiry, dialect=contexts.in_order(inquiry, wanted))
        wanted = contexts.wanted(inquiry)
    if "padded" in inquiry.chosen:
        inquiry = _padded(inquiry, inquiry.chosen["padded"])
    elif facts.context_shape is None or contexts.is_mask(wanted):
        labels = options.get("context") == GIVEN_LABELS
        ask = _labelled if labels else _given if wanted else None
        inquiry = ask(inquiry, wanted) if ask else inquiry
    if takes_context_first(inquiry.dialect.log_prob):
        method = density_method(inquiry.dialect.log_prob)
        inquiry = inquiry.knowing(f"{method} takes its context first")
    if not wanted and (lain := _on_a_simplex(inquiry)):
        inquiry = replace(inquiry, facts=lain)
        inquiry = inquiry.knowing("domain: simplex, on which its samples lie")
    if not inquiry.facts.event_shape:
        inquiry = _with_event(inquiry, instance, dtype, options.get("kind"))
    _refuse_other_size(inquiry, instance.source.target)
    return inquiry


def _begun(instance: Instance, dialect: Dialect, facts: Facts) -> Inquiry:
    """What is asked before any call, as it was declared."""
    obj = instance.resting()
    asked = obj, dialect, instance.backend, instance.dtype, facts, instance.chosen(obj)
    inquiry = Inquiry(*asked)
    if "normalizing" in inquiry.chosen:  # it is told which call takes data to latents
        promises = {name: told for name, told in facts.promises.items() if name != "direction"}
        facts = replace(facts, promises=promises)
    if facts.codomain is not None and facts.codomain.kind == "simplex":
        # Of what lies on it all coordinates but one are judged, which fill no set with a name.
        inquiry, facts = inquiry.knowing(**{DECLARED: "yes"}), replace(facts, codomain=None)
    if facts.domain.kind == "simplex" and dialect.log_prob is None and facts.normalizer is None:
        inquiry = inquiry.knowing(**{FROM: "yes"})
    if not facts.event_shape and facts.domain.coordinates:
        facts = replace(facts, event_shape=(len(facts.domain.coordinates),))
    return replace(inquiry, facts=facts)


def _given(inquiry: Inquiry, name: str) -> Inquiry:
    """With the shape of a context that the object cannot be called without, or with what it is given in the place of a
    mask or a label.
    """
    from flowref.adapters.user import contexts, masks

    refused = None
    if not contexts.is_mask(name):
        try:
            found = contexts.infer(inquiry, name)
            shape = ", ".join(map(str, found.context_shape or ()))
            return replace(inquiry, facts=found).knowing(f"context: {name} of shape ({shape},)")
        except Ambiguous:
            raise
        except TargetError as error:
            refused = error
        torch = inquiry.backend.name == "torch"
        numbers = isinstance(refused, contexts.RunningLogDet) or not torch
        if not numbers and (classes := contexts.classes(inquiry, name))[0]:
            return _with_classes(inquiry, name, *classes)
    bound = masks.bind(inquiry, name)
    if not bound:
        raise refused or TargetError(f"it asks for {name} besides points: give its ?event=")
    kind = bound.partition("=")[2]
    given = {"none": "None", "label": "1 for all points"}.get(kind, f"ones for {kind}")
    return inquiry.knowing(f"{name}: {given}", **{GIVEN_ONES: bound})


def _labelled(inquiry: Inquiry, wanted: str) -> Inquiry:
    """With labels, which were declared, and may be None by default."""
    from flowref.adapters.user import contexts

    name = wanted or contexts.optional(inquiry)
    known = name and inquiry.backend.name == "torch"
    count, event = contexts.classes(inquiry, name) if known else (0, ())
    if not count:
        raise SpecError("context was given as labels, and no call takes whole numbers, one a point")
    return _with_classes(inquiry, name, count, event)


def _with_classes(inquiry: Inquiry, name: str, count: int, event: Shape) -> Inquiry:
    promises = {**inquiry.facts.promises, "labels": True}
    inquiry = inquiry.having(event_shape=event, context_shape=(1,), promises=promises)
    which = f"labels 0 to {count - 1}" if count > 1 else "the label 0"
    said = f"{name}: {which}, to which contexts are rounded"
    return inquiry.knowing(said, **{CLASSES: str(count)})


def _padded(inquiry: Inquiry, name: str) -> Inquiry:
    """With padding behind sequences, which an argument masks out: of what is kept it is a map like any other."""
    from flowref.adapters.user import masks
    from flowref.adapters.user.conventions import asking, signatures

    obj, dialect = inquiry.obj, inquiry.dialect
    mask, event = masks.padding(inquiry, name)
    dense = None
    if name in {one.name for one in signatures.parameters(obj, "log_prob")}:
        call = mask.call("log_prob", (), signatures.apart(obj, "log_prob", 1))
        dense = partial(asking.padded, ask=call, axis=mask.axis)
    dialect = replace(dialect, log_prob=dialect.log_prob and dense, sample=None)
    words = f"padded by one position, which {name} masks out"
    inquiry = replace(inquiry, dialect=dialect).having(event_shape=event)
    return inquiry.knowing(words, **{MASKED_OUT: str(mask)})


def _on_a_simplex(inquiry: Inquiry) -> Facts | None:
    """Facts with the shape of samples, and their set, where nothing was declared and all of them are positive and sum
    to one; None of all else.
    """
    dialect, facts = inquiry.dialect, inquiry.facts
    told = facts.event_shape or facts.domain.kind != "real" or facts.context_shape is not None
    if told or dialect.sample is None or dialect.forward is not None:
        return None
    for count in (DRAWN, (DRAWN,)):
        try:
            drawn = np.asarray(inquiry.backend.array(dialect.sample(inquiry.obj, count, None)))
        except Exception:  # it asks for something else
            continue
        if _lies_on_a_simplex(drawn):
            domain = Support.parse("simplex")
            return replace(facts, event_shape=drawn.shape[1:], domain=domain, declared=True)
        if len(drawn) == DRAWN:  # so many were asked for, and came
            return None
    return None


def _lies_on_a_simplex(drawn: Array) -> bool:
    if drawn.ndim < 2 or len(drawn) != DRAWN or drawn.shape[-1] < 2:
        return False
    return bool((drawn > 0).all() and np.abs(drawn.sum(-1) - 1).max() < OFF)


def _with_event(inquiry: Inquiry, instance: Instance, dtype: Any, kind: str | None) -> Inquiry:
    """With the first event shape that every call takes, and those that they take as well."""
    from flowref.adapters.common.normalizers import recognition

    normalizes, shape = inquiry.facts.normalizer is not None, None
    if not normalizes:
        shape = recognition.infer_shape(inquiry.obj, inquiry.dialect, dtype, kind)
    inquiry = inquiry.having(event_shape=shape or _inferred(inquiry, instance))
    if not normalizes and inquiry.facts.context_shape is None:
        inquiry = inquiry.having(guessed=alternatives(replace(inquiry, obj=instance.resting())))
    event = inquiry.facts.event_shape
    why = f"every call takes batches of events of shape {event}, the first that does"
    return replace(inquiry, why=(*inquiry.why, why))


def _inferred(inquiry: Inquiry, instance: Instance) -> Shape:
    """The event shape that calls in eval mode show, or in train mode where those in eval mode are
    refused.
    """
    try:
        return infer_shape(inquiry)
    except Ambiguous:
        raise
    except TargetError:
        other = instance.copy()
        instance.backend.set_mode(other, True)
        with contextlib.suppress(TargetError):
            return infer_shape(replace(inquiry, obj=other))
        raise


def _refuse_other_size(inquiry: Inquiry, target: Target) -> None:
    facts = inquiry.facts
    size = math.prod(facts.event_shape)
    for name, support in (("domain", facts.domain), ("codomain", facts.codomain)):
        if support is not None and support.coordinates and len(support.coordinates) != size:
            raise TargetError(
                f"{target}: its {name} has {len(support.coordinates)} coordinates, but an event of "
                f"shape {facts.event_shape} has {size}"
            )
