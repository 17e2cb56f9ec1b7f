"""The gradient of a whole batch whose rows share statistics."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from flowref.laws.common.arithmetic import reported
from flowref.laws.common.cases import (
    affords_dozen_calls,
    changes_between_calls,
    mode_matters,
    rows_alone,
)
from flowref.laws.common.outcomes import attempt
from flowref.laws.common.probes import probe_of
from flowref.laws.common.quotients import DOUBT, quotient, unit_directions
from flowref.laws.common.requirements import exact_log_det
from flowref.model import (
    ADVICE,
    BOUND,
    NEARBY,
    Array,
    Batch,
    Residual,
    Undecidable,
    Unsupported,
    draw_points,
    law,
)
from flowref.model.abilities import Bijection, Living, Pulling

# Rows of a batch, and the relative tolerance of its gradient.
ROWS, OFF = 8, 1e-5


class Trained(Bijection, Pulling, Living, Protocol):
    """A map with train mode and vector-Jacobian products."""


@law(
    "gradient/input[batch]",
    force=ADVICE,
    tolerance=BOUND,
    effort=1,
    size=1,
    scales=NEARBY,
    mode="train",
    local=False,
    applies=affords_dozen_calls & mode_matters & exact_log_det,
    source="Ioffe and Szegedy 2015, algorithm 1: the gradient flows through the statistics of the batch",
)
def batch_gradient(flow: Trained, batch: Batch) -> Residual:
    """In train mode, the gradient of a batch passes through the statistics of the batch: it is the
    derivative of the outputs of all rows together.
    """
    if rows_alone(flow):
        raise Unsupported("in train mode rows are independent", blocked=False)
    rng = np.random.default_rng(batch.seed)
    x = draw_points(flow.domain, (ROWS, *flow.event_shape), rng)
    shape = flow.context_shape
    context = None if shape is None else rng.standard_normal((ROWS, *shape))
    probe = probe_of(flow, "forward", x, context)
    if changes_between_calls(flow, probe):
        raise Unsupported("in train mode a call changes what the next one returns", blocked=False)
    out = probe()
    weights, each = rng.standard_normal(np.shape(out.value)), rng.standard_normal(ROWS)
    has_log_det = out.ladj is not None and np.shape(out.ladj)[:1] == (ROWS,)

    def total(at: Array) -> Array:
        result = flow.forward(at[0], context)
        volume = each @ reported(flow, result, ROWS) if has_log_det else 0.0
        return np.array([float((weights * result.value).sum() + volume)])

    direction = unit_directions(x.shape, batch.seed) * (1 + np.abs(x))
    difference = quotient(total, x[None], direction[None], None)
    found, refused = attempt(
        flow.vjp, "forward", x, context, weights, each if has_log_det else None
    )
    if refused:
        raise Unsupported(f"it cannot be differentiated here ({refused})")
    along = np.array([float((np.asarray(found) * direction).sum())])
    difference = difference.confirmed_by_smaller_steps(along)
    size = np.linalg.norm(np.asarray(found)) * np.linalg.norm(direction)
    allowed = DOUBT * difference.error + OFF * (size + np.abs(difference.slope))
    if not difference.resolved(allowed).all():
        raise Undecidable("differences do not converge")
    note = "statistics of the batch are constants to its gradient, or their gradient is wrong"
    return Residual(
        along - difference.slope,
        1.0,
        allowed=allowed,
        observed={"autograd": along, "difference": difference.slope},
        note=note,
    )
