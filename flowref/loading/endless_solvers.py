"""Calls of solvers that do not end: their noise is drawn anew at each evaluation of a field."""

from __future__ import annotations

import itertools
from dataclasses import replace

from flowref.adapters.user.event_shapes import shapes
from flowref.adapters.user.solvers import integrates
from flowref.loading.instance import Instance
from flowref.model import Dialect, Facts
from flowref.model.cost import OPERATION

# Operations that one call is waited for, which take seconds; a loading makes some forty calls.
MOST = 80_000
# Event shapes that are tried where none is stated.
TRIED = 6
# From this share on of evaluations between which noise was drawn, it is drawn for each.
SHARE = 0.3


def unended(instance: Instance, dialect: Dialect, facts: Facts) -> Facts | None:
    """The facts of an object of which one call takes more operations than are waited for, while it draws
    noise between the evaluations of a field; None of all else.

    Only what integrates, or says that it estimates, is asked. Where the error of a step is estimated,
    fresh noise keeps it from ever being small, and steps shrink without end; to wait for any other
    call would show nothing of this one.
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
        if name not in cost.calls:  # it was refused
            continue
        call = cost.of(name)
        if call.complete or call.redrawn <= SHARE:
            return None
        words = (
            f"{name} was cut short after {MOST} operations: with noise drawn between the evaluations of its "
            "field, steps that an error estimate chooses do not end"
        )
        promises = {**facts.promises, "estimator": True}
        return replace(shaped, cost=cost, promises=promises, unended=words)
    return None
