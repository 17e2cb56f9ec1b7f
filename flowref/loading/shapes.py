"""Shapes of a user's object, found by calling a copy: its context, padding mask and event."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from typing import Any

import numpy as np

from flowref.adapters.user.calls import density_method, takes_context_first
from flowref.adapters.user.conventions.labels import GIVEN_LABELS
from flowref.adapters.user.conventions.simplex import DECLARED, FROM
from flowref.adapters.user.conventions.surfaces import refuse_event
from flowref.adapters.user.event_shapes import alternatives, infer_shape
from flowref.adapters.user.extras import LABELLED, PADDING, argument_kind, given
from flowref.adapters.user.inquiry import Inquiry
from flowref.loading.instance import Instance
from flowref.model import (
    CURVED,
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

# Samples for detecting a simplex, and the tolerance of their sums.
DRAWN, OFF = 7, 1e-5


def shaped(instance: Instance, dialect: Dialect, facts: Facts) -> Inquiry:
    """The inquiry of an object once its shapes are known.

    Raises `TargetError` or `SpecError` in one sentence if calls do not determine them.
    """
    from flowref.adapters.common.normalizers import statistics_layers
    from flowref.adapters.user import contexts

    inquiry = _declared_inquiry(instance, dialect, facts)
    options = instance.source.options
    dtype = inquiry.tensor(np.zeros(1)).dtype
    statistics_layers.refuse(inquiry.obj, dialect, str(instance.source.target), dtype)
    wanted = contexts.wanted(inquiry)
    if wanted:
        inquiry = replace(inquiry, dialect=contexts.convention_with_context_order(inquiry, wanted))
        wanted = contexts.wanted(inquiry)
    if "padded" in inquiry.chosen:
        inquiry = given(inquiry, inquiry.chosen["padded"], (PADDING,))
    elif facts.context_shape is None or argument_kind(wanted) == "mask":
        if options.get("context") == GIVEN_LABELS:
            inquiry = _with_labels(inquiry, wanted or contexts.optional(inquiry))
        elif wanted:
            inquiry = given(inquiry, wanted)
    if takes_context_first(inquiry.dialect.log_prob):
        method = density_method(inquiry.dialect.log_prob)
        inquiry = inquiry.knowing(f"{method} takes its context first")
    if not wanted and (lain := _on_a_simplex(inquiry)):
        inquiry = replace(inquiry, facts=lain)
        inquiry = inquiry.knowing("domain: simplex, on which its samples lie")
    if not inquiry.facts.event_shape and not inquiry.dialect.is_process:
        inquiry = _with_event(inquiry, instance, dtype, options.get("kind"))
    _refuse_other_size(inquiry, instance.source.target)
    return inquiry


def _declared_inquiry(instance: Instance, dialect: Dialect, facts: Facts) -> Inquiry:
    obj = instance.resting()
    asked = obj, dialect, instance.backend, instance.dtype, facts, instance.chosen(obj)
    inquiry = Inquiry(*asked)
    if facts.codomain is not None and facts.codomain.kind == "simplex":
        # A surface is tested in coordinates, one fewer, whose range has no name.
        inquiry, facts = inquiry.knowing(**{DECLARED: "yes"}), replace(facts, codomain=None)
    if facts.domain.kind == "simplex" and dialect.log_prob is None and facts.normalizer is None:
        inquiry = inquiry.knowing(**{FROM: "yes"})
    if not facts.event_shape and facts.domain.coordinates:
        facts = replace(facts, event_shape=(len(facts.domain.coordinates),))
    return replace(inquiry, facts=facts)


def _with_labels(inquiry: Inquiry, name: str) -> Inquiry:
    """The inquiry with declared labels, which may be None by default."""
    with contextlib.suppress(TargetError):
        return given(inquiry, name, (LABELLED,))
    raise SpecError("context was given as labels, and no call takes integers, one per point")


def _on_a_simplex(inquiry: Inquiry) -> Facts | None:
    """Facts with the shape and set of samples, if nothing is declared and all samples are positive and sum
    to one; else None.
    """
    dialect, facts = inquiry.dialect, inquiry.facts
    stated = facts.event_shape or facts.domain.kind != "real" or facts.context_shape is not None
    if stated or dialect.sample is None or dialect.forward is not None:
        return None
    for count in (DRAWN, (DRAWN,)):
        try:
            drawn = np.asarray(inquiry.backend.array(dialect.sample(inquiry.obj, count, None)))
        except Exception:  # sampling needs other arguments
            continue
        if _lies_on_a_simplex(drawn):
            domain = Support.parse("simplex")
            return replace(facts, event_shape=drawn.shape[1:], domain=domain, declared=True)
        if drawn.shape[:1] == (DRAWN,):  # the first axis is that of the samples
            return None
    return None


def _lies_on_a_simplex(drawn: Array) -> bool:
    if drawn.ndim < 2 or len(drawn) != DRAWN or drawn.shape[-1] < 2:
        return False
    return bool((drawn > 0).all() and np.abs(drawn.sum(-1) - 1).max() < OFF)


def _with_event(inquiry: Inquiry, instance: Instance, dtype: Any, kind: str | None) -> Inquiry:
    """The inquiry with the first event shape that every call accepts, and further accepted ones."""
    from flowref.adapters.common.normalizers import recognition

    normalizes, shape = inquiry.facts.normalizer is not None, None
    if not normalizes:
        shape = recognition.infer_shape(inquiry.obj, inquiry.dialect, dtype, kind)
    inquiry = inquiry.having(event_shape=shape or _inferred(inquiry, instance))
    if not normalizes and inquiry.facts.context_shape is None:
        inquiry = inquiry.having(guessed=alternatives(replace(inquiry, obj=instance.resting())))
    event = inquiry.facts.event_shape
    why = f"event shape {event}: the first that all calls accept"
    return replace(inquiry, why=(*inquiry.why, why))


def _inferred(inquiry: Inquiry, instance: Instance) -> Shape:
    """The event shape found in eval mode, or in train mode if eval mode raises."""
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
    if facts.domain.kind in CURVED:
        refuse_event(facts.domain.kind, facts.event_shape)
    for name, support in (("domain", facts.domain), ("codomain", facts.codomain)):
        if support is not None and support.coordinates and len(support.coordinates) != size:
            raise TargetError(
                f"{target}: its {name} has {len(support.coordinates)} coordinates, but an event of "
                f"shape {facts.event_shape} has {size}"
            )
