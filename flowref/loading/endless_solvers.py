"""Detect ODE solves that do not terminate because the vector field resamples its noise at each evaluation."""

from __future__ import annotations

import itertools
from dataclasses import replace

from flowref.adapters.user.event_shapes import shapes
from flowref.adapters.user.solvers import integrates
from flowref.loading.instance import Instance
from flowref.model import Dialect, Facts
from flowref.model.cost import OPERATION

# Operations after which a call is stopped (some seconds); loading makes about forty calls.
MOST = 80_000
# Event shapes tried if none is stated.
TRIED = 6
# Share of evaluations with fresh noise in between from which on the field is considered random.
SHARE = 0.3


def unended(instance: Instance, dialect: Dialect, facts: Facts) -> Facts | None:
    """The facts of an object that integrates and one of whose calls exceeds `MOST` operations while it
    draws noise between evaluations of a field; else None.

    An adaptive solver estimates the error of a step; with fresh noise the estimate never becomes small, and
    steps shrink without end. Only objects that integrate, or that state an estimate, are tried.
    """
    obj = instance.obj
    name = next((one for one in ("forward", "log_prob") if getattr(dialect, one) is not None), "")
    if instance.backend.name != "torch" or not name:
        return None
    if not facts.certainty.estimate and not integrates(obj):
        return None
    alone = Dialect(**{name: getattr(dialect, name)})
    likely = shapes(obj, instance.backend.state_shapes(obj))
    tried = [facts.event_shape] if facts.event_shape else itertools.islice(likely, TRIED)
    for shape in tried:
        shaped = replace(facts, event_shape=shape)
        most = MOST * OPERATION
        cost = instance.backend.cost(instance.copy(), alone, shaped, instance.dtype, most)
        if name not in cost.calls:  # forward was rejected
            continue
        call = cost.of(name)
        if call.complete or call.redrawn <= SHARE:
            return None
        words = (
            f"{name} was stopped after {MOST} operations: its vector field draws noise at each evaluation, "
            "so that an adaptive solver does not terminate"
        )
        promises = {**facts.promises, "estimator": True}
        return replace(shaped, cost=cost, promises=promises, unended=words)
    return None
