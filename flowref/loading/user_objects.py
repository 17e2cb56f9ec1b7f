"""From the shapes, calls and facts of a user's object to its draft: with an optional context if its size is
stated, and within the domain where it is finite.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace

from flowref import registry
from flowref.adapters.user import contexts
from flowref.adapters.user.conventions.names import is_context
from flowref.adapters.user.extras import NUMBERS, given, stated_context_shape
from flowref.adapters.user.inquiry import Inquiry
from flowref.loading.calls import drafted, with_checked_log_det
from flowref.loading.domains import finite_interval, unknown
from flowref.loading.draft import Draft, run_experiments
from flowref.loading.experiments import OF_CALLS
from flowref.loading.instance import Instance
from flowref.loading.recognition import minus_hint
from flowref.model import Dialect, Facts, FlowrefError, Shape, Support, TargetError


def draft_of(instance: Instance, dialect: Dialect, facts: Facts) -> Draft:
    """The draft of a user's object, with a context if an option gives its size or an attribute does and
    calls need one.
    """
    options = instance.source.options
    if facts.context_shape is not None or "context" in options:
        return _measured_draft(instance, dialect, facts)
    opened = {
        name: value
        for name, value in options.items()
        if registry.opening(name) and value not in ("0", "None")
    }
    for name, size in opened.items() if len(opened) == 1 else ():
        for more in ((), (1,)):  # for sequences it is broadcast over positions
            with contextlib.suppress(Exception):  # takes no context, or one of another shape
                return _draft_with_contexts(instance, dialect, facts, (int(size), *more), name)
    try:
        return _measured_draft(instance, dialect, facts)
    except Exception as error:
        with contextlib.suppress(Exception):
            if shape := stated_context_shape(instance.obj):
                return _draft_with_contexts(instance, dialect, facts, shape, "an attribute")
            return _draft_with_context(instance, dialect, facts)
        if isinstance(error, TargetError) and "log_prob" not in options:
            raise type(error)(f"{error}{minus_hint(instance.obj)}") from error
        raise


def _measured_draft(instance: Instance, dialect: Dialect, facts: Facts) -> Draft:
    """The draft with given facts, restricted to the domain where the object is finite."""
    try:
        draft, words = drafted(instance, dialect, facts), ""
    except FlowrefError:
        raise
    except Exception:
        if (within := _on_manifold(instance, dialect, facts)) is None:
            raise
        draft, words = within
    if unknown(draft) and (found := finite_interval(draft)):
        # Shapes found from points outside of the domain do not count.
        draft = drafted(instance, dialect, replace(facts, domain=found))
        words = f"domain: {found}, since it is not finite elsewhere"
    draft = run_experiments(draft, OF_CALLS)
    return (with_checked_log_det(draft) if draft.dialect.push is None else draft).saying(words)


def _on_manifold(instance: Instance, dialect: Dialect, facts: Facts) -> tuple[Draft, str] | None:
    """The draft of an object that accepts only points of a manifold, and a remark; else None."""
    if facts.declared or facts.domain.kind != "real" or not facts.event_shape:
        return None
    for kind, around in (("so3", "(-1,1)"), ("sphere", "(-1,1)"), ("simplex", "unit")):
        if kind == "so3" and facts.event_shape[-2:] != (3, 3):
            continue
        found = _draft_on_domain(instance, dialect, facts, kind)
        # An object that accepts all points around the manifold is no map of it.
        if found is not None and _draft_on_domain(instance, dialect, facts, around) is None:
            return found, f"domain: {kind}, since it raises elsewhere"
    return None


def _draft_on_domain(
    instance: Instance, dialect: Dialect, facts: Facts, domain: str
) -> Draft | None:
    """The draft on a domain; None if it raises there as well."""
    try:
        return drafted(instance, dialect, replace(facts, domain=Support.parse(domain)))
    except Exception:  # any class of exception
        return None


def _draft_with_context(instance: Instance, dialect: Dialect, facts: Facts) -> Draft:
    """The draft with the single context shape that calls accept."""
    with instance.backend.sandbox(0, instance.dtype):
        chosen = instance.chosen(instance.obj)
        asked = instance.copy(), dialect, instance.backend, instance.dtype, facts, chosen
        inquiry = Inquiry(*asked)
        name = contexts.optional(inquiry)
        found = given(inquiry, name, (NUMBERS,)).facts if is_context(name) else facts
    if found.context_shape is None:
        raise TargetError("it takes no context")
    words = f"{name} is needed, and of shape {found.context_shape}"
    return _measured_draft(instance, dialect, found).saying(words)


def _draft_with_contexts(
    instance: Instance, dialect: Dialect, facts: Facts, shape: Shape, name: str
) -> Draft:
    draft = _measured_draft(instance, dialect, replace(facts, context_shape=shape))
    return draft.saying(f"contexts of shape {shape}, as {name} says")
