"""Contexts that a call takes by None, where a size is said: who says it means a flow that is given one."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from flowref import registry
from flowref.adapters.user import contexts
from flowref.adapters.user.conventions.chosen import chosen_of
from flowref.adapters.user.conventions.names import is_context
from flowref.adapters.user.conventions.settling import Settled
from flowref.loading.factory import attributes
from flowref.loading.instance import Instance
from flowref.loading.recognition import minus_hint
from flowref.loading.settling import settled
from flowref.model import Dialect, Facts, Shape, TargetError

Heard = tuple[Facts, Settled, tuple[str, ...]]


def heard(instance: Instance, dialect: Dialect, facts: Facts) -> Heard:
    """How a user's object speaks, with a context where an option says how many numbers it has, or an attribute
    of what is refused without one.
    """
    options = dict(instance.source.target.options)
    if facts.context_shape is not None or "context" in options:
        return settled(instance, dialect, facts)
    opened = {
        name: value
        for name, value in options.items()
        if registry.opening(name) and value not in ("0", "None")
    }
    for name, size in opened.items() if len(opened) == 1 else ():
        for more in ((), (1,)):  # of sequences it is stretched over positions
            with contextlib.suppress(Exception):  # it takes none, or of another shape
                return _given(instance, dialect, facts, (int(size), *more), name)
    try:
        return settled(instance, dialect, facts)
    except Exception as error:
        with contextlib.suppress(Exception):
            if told := contexts.told(instance.obj):
                return _given(instance, dialect, facts, told, "an attribute")
            return _tried(instance, dialect, facts)
        if isinstance(error, TargetError) and "log_prob" not in options:
            raise type(error)(f"{error}{minus_hint(instance.obj)}") from error
        raise


def _tried(instance: Instance, dialect: Dialect, facts: Facts) -> Heard:
    """How it speaks with the one shape of a context that calls take."""
    options = dict(instance.source.target.options)
    chosen = chosen_of(instance.obj, attributes(instance.source.factory), options)
    with instance.backend.sandbox(0, instance.dtype):
        obj = instance.copy()
        name = contexts.optional(obj, dialect, chosen)
        asked = obj, dialect, instance.backend, instance.dtype, facts, chosen
        found = contexts.infer(*asked, name) if is_context(name) else facts
    if found.context_shape is None:
        raise TargetError("it takes no context")
    facts, spoken, why = settled(instance, dialect, found)
    words = f"{name} is needed, and of shape {found.context_shape}"
    return facts, spoken.saying(words), why


def _given(instance: Instance, dialect: Dialect, facts: Facts, shape: Shape, name: str) -> Heard:
    """How it speaks with a context of one shape."""
    facts, spoken, why = settled(instance, dialect, replace(facts, context_shape=shape))
    return facts, spoken.saying(f"contexts of shape {shape}, as {name} says"), why
