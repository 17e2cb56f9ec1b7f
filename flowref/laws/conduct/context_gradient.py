"""Gradients with respect to the context are derivatives: encoders of conditional flows are trained
through them.
"""

from __future__ import annotations

import numpy as np

from flowref.laws.common.amounts import sparing
from flowref.laws.common.cases import CONTEXT, TRAIN
from flowref.laws.common.outcomes import attempt, finite_outcome_rows, flags, row_log_dets
from flowref.laws.common.probes import probe_of
from flowref.laws.common.quotients import DOUBT, STEPS_DOWN, quotient, unit_directions
from flowref.laws.common.requirements import (
    has_parameters,
    in_double,
    not_estimator,
    true_gradients,
)
from flowref.model import (
    ADVICE,
    AWAY,
    EXACT,
    GIVEN,
    NEARBY,
    Array,
    Batch,
    Residual,
    Unsupported,
    law,
    requires,
)
from flowref.model.abilities import Flow, Pulling

# Steps of a context that test smoothness, the relative tolerance of the ratio of its effects, and
# the smallest effect.
SHORT, LONG, ALIKE, MOVED = 1e-4, 2e-4, 0.1, 1e-6
# Larger contexts may be clamped; relative tolerance of a backward pass that integrates anew.
MODERATE, APPROXIMATE = 3.0, 1e-4
# Entries of a context that are moved one at a time.
ENTRIES = 8


def judged_call(flow: Flow) -> str:
    """The name of the call that is judged: log_prob, else the normalizing call, else the other
    direction.
    """
    names = ("log_prob", flow.normalizing, "forward", "inverse")
    return next(name for name in names if name in flow.calls)


@requires("it takes no real-valued context")
def conditional(flow: Flow) -> bool:
    """The flow takes a real-valued context; labels have no gradients."""
    return bool(flow.context_shape) and not flow.promises.get("labels")


@law(
    "gradient/context",
    key="conduct/context-gradient",
    applies=conditional & not_estimator & in_double & true_gradients,
    size=7,
    effort=2,
    scales=NEARBY,
    source="an encoder of the context is trained through its gradient",
    cases=(TRAIN, CONTEXT),
)
def context_gradient(flow: Pulling, batch: Batch) -> Residual:
    """Gradients that reach the context are the derivatives of log_prob, or of value and log-det,
    with respect to the context: no path is detached.
    """
    which = judged_call(flow)
    rows, context = len(batch.x), batch.context
    if context is None:
        raise Unsupported("it takes no context", blocked=False)
    context = np.clip(np.asarray(context, np.float64), -MODERATE, MODERATE)
    probe = probe_of(flow, which, batch.x, context)
    if probe.tolerance:
        raise Unsupported("it iterates")
    out = probe()
    weights = unit_directions(np.shape(out.value), batch.seed + 1)
    own = out.ladj is not None and np.ndim(out.ladj) > 0

    def measure(at: Array) -> Array:
        result = probe_of(flow, which, batch.x, at)()
        value = np.asarray(result.value, dtype=np.float64) * weights
        total = value.reshape(rows, -1).sum(1)
        return np.asarray(total + row_log_dets(result, rows) if own else total)

    direction = unit_directions(context.shape, batch.seed)
    with np.errstate(all="ignore"):
        difference = quotient(measure, context, direction, None, sparing(flow))
    ones = np.ones(rows) if own else None
    gradient, refused = attempt(flow.vjp, which, batch.x, context, weights, ones, "context")
    if refused:
        raise Unsupported(f"it cannot be differentiated here ({refused})", blocked=False)
    gradient = np.asarray(gradient, dtype=np.float64)
    if not gradient.any():
        raise Unsupported("it passes no gradient on to the context", blocked=False)
    along = (gradient * direction).reshape(rows, -1).sum(1)
    difference = difference.confirmed_by_smaller_steps(along)
    with np.errstate(all="ignore"):
        rounding = 2.0**-47 * (1 + np.abs(measure(context))) / STEPS_DOWN[-1]
        allowed = DOUBT * (difference.error + rounding) + APPROXIMATE * (
            np.abs(difference.slope) + 1e-2
        )
    judged = finite_outcome_rows(out, rows) & difference.resolved(allowed) & np.isfinite(along)
    note = f"autograd's derivative of {which} in the context differs from its difference quotient"
    return difference.residual(along, allowed, judged, note)


@law(
    "gradient/context-used[gradient]",
    key="conduct/context-reached",
    force=ADVICE,
    tolerance=EXACT,
    applies=conditional & in_double & true_gradients,
    size=7,
    effort=1,
    scales=GIVEN,
    source="a detached context silently leaves an encoder untrained",
)
def context_reached(flow: Pulling, batch: Batch) -> Residual:
    """If the output depends smoothly on the context, gradients reach the context, unless it is
    detached on purpose.
    """
    which = judged_call(flow)
    rows, context = len(batch.x), batch.context
    if context is None:
        raise Unsupported("it takes no context", blocked=False)
    context = np.clip(np.asarray(context, np.float64), -MODERATE, MODERATE)
    direction = unit_directions(context.shape, batch.seed)
    values = []
    for step in (0.0, SHORT, LONG):
        out = probe_of(flow, which, batch.x, context + step * direction)()
        values.append(np.asarray(out.value, dtype=np.float64).reshape(rows, -1))
    short, long = values[1] - values[0], values[2] - values[0]
    size = MOVED * (1 + np.abs(values[0]).max(1, initial=0.0))
    moves = (np.abs(short).max(1, initial=0.0) > size) & (
        np.abs(long - 2 * short).max(1, initial=0.0) <= ALIKE * np.abs(long).max(1, initial=0.0)
    )
    weights = unit_directions(np.shape(out.value), batch.seed + 1)
    own = out.ladj is not None and np.ndim(out.ladj) > 0
    ones = np.ones(rows) if own else None
    gradient, refused = attempt(flow.vjp, which, batch.x, context, weights, ones, "context")
    if refused:
        raise Unsupported(f"it cannot be differentiated here ({refused})", blocked=False)
    lost = moves & (not np.asarray(gradient).any())
    note = f"{which} moves with the context, and passes no gradient on to it"
    return flags(lost, rows, note, trivial=~moves)


@law(
    "gradient/context-used",
    key="conduct/context-used",
    force=ADVICE,
    tolerance=EXACT,
    applies=conditional & has_parameters,
    size=7,
    effort=1,
    scales=AWAY,
    local=False,
    source="if a field or a conditioner ignores the context, the density is the same for all contexts",
)
def context_used(flow: Flow, batch: Batch) -> Residual:
    """The output of a conditional flow depends on its context with other than initial weights: the
    value, the log-det or the density, in each entry of the context.

    Advice, since some layers accept a context only for a uniform interface.
    """
    which = judged_call(flow)
    rows, context = len(batch.x), batch.context
    if context is None:
        raise Unsupported("it takes no context", blocked=False)
    shape = np.shape(context)
    context = np.asarray(context, np.float64).reshape(rows, -1)

    def entries(at: Array) -> Array:
        out = probe_of(flow, which, batch.x, at.reshape(shape))()
        values = np.asarray(out.value, dtype=np.float64).reshape(rows, -1)
        ladj = [] if out.ladj is None else [row_log_dets(out, rows)[:, None]]
        return np.concatenate([values, *ladj], 1)

    here = entries(context)
    idle = []
    for entry in range(min(context.shape[1], ENTRIES)):
        for step in (1.0, -1.0, 8.0):
            moved = context.copy()
            moved[:, entry] += step
            with np.errstate(invalid="ignore"):
                if (entries(moved) != here).any():
                    break
        else:
            idle.append(entry)
    of = (
        "the context"
        if len(idle) == context.shape[1]
        else f"entry {idle[0] if idle else 0} of the context"
    )
    return flags(
        bool(idle), rows, f"{which} does not depend on {of}", trivial=~np.isfinite(here).all(1)
    )
