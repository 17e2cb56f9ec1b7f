"""Second derivatives, for training that differentiates a gradient: score matching, gradient
penalties.
"""

from __future__ import annotations

import numpy as np

from flowref.laws.common.amounts import sparing
from flowref.laws.common.outcomes import finite_outcome_rows
from flowref.laws.common.quotients import DOUBT, STEPS_DOWN, quotient, unit_directions
from flowref.laws.conduct.autograd import BijectionPulling, differentiable
from flowref.model import CONTRACT, GIVEN, Array, Batch, Residual, law


@law(
    "gradient/input[second-order]",
    key="hygiene/double-backward",
    force=CONTRACT,
    promise="double-backward",
    scales=GIVEN,
    effort=2,
    size=16,
    applies=differentiable,
    source="torch.autograd.gradgradcheck: a backward pass that is differentiated again is the second derivative",
    pointwise=True,
)
def double_backward(flow: BijectionPulling, batch: Batch) -> Residual:
    """Autograd's second derivative of forward is the derivative of its first."""
    vjp, rows = flow.vjp, len(batch.x)
    out = flow.forward(batch.x, batch.context)
    weights = unit_directions(np.shape(out.value), batch.seed + 1)
    cotangents = (weights, None if out.ladj is None else np.ones(rows))
    direction = unit_directions(batch.x.shape, batch.seed) * (1 + np.abs(batch.x))

    def measure(at: Array) -> Array:
        gradient = np.asarray(vjp("forward", at, batch.context, *cotangents), dtype=np.float64)
        return np.asarray((gradient * direction).reshape(rows, -1).sum(1))

    with np.errstate(all="ignore"):
        difference = quotient(measure, batch.x, direction, flow.domain, sparing(flow))
        second = np.asarray(
            vjp("forward", batch.x, batch.context, *cotangents, "x", direction), dtype=np.float64
        )
        along = (second * direction).reshape(rows, -1).sum(1)
        difference = difference.confirmed_by_smaller_steps(along)
        slope = np.abs(difference.slope)
        rounding = 2.0**-47 * (1 + np.abs(measure(batch.x))) / STEPS_DOWN[-1]
        allowed = DOUBT * (difference.error + rounding) + 1e-7 * slope
    return difference.residual(
        along,
        allowed,
        finite_outcome_rows(out, rows) & difference.resolved(allowed),
        "autograd's second derivative of forward differs from the difference quotient of the first",
        trivial=(along == 0) & (slope <= allowed),
    )
