"""Three oracles of a log-det: the call that returned it, autograd's Jacobian, and differences."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowref.laws.common.arithmetic import (
    differences,
    finite_rows,
    latents,
    log_abs_det,
    reported,
    resolvable,
    square,
)
from flowref.model import Array, Batch, Residual
from flowref.model.abilities import Differentiable

# Differences accuse only beyond this many times their own error estimate, and never alone.
DIFFERENCE_FACTOR = 20.0
# The largest event whose Jacobian is taken apart by differences for the reader.
DIFFERENCE_SIZE = 128
CANNOT_TELL = "reported or autograd (differences cannot tell)"


def against_autograd(flow: Differentiable, which: str, x: Array, context: Array | None) -> Residual:
    """Reported minus autograd's log|det J| of one call."""
    call = flow.calls[which]
    out = call(x, context)
    claimed = reported(flow, out, len(x))
    matrices = flow.jacobian(which, x, context)
    square(matrices[:0])
    truth = log_abs_det(matrices)
    decidable = finite_rows(out.value) & resolvable(matrices, truth)
    return Residual(
        np.where(decidable, claimed - np.where(decidable, truth, 0.0), 0.0),
        scale=4 + np.where(np.isfinite(truth), np.abs(truth), 0.0),
        decidable=decidable,
        observed={"reported": claimed, "autograd": truth},
    )


def arbitrated(
    flow: Differentiable, which: str, x: Array, context: Array | None
) -> tuple[dict[str, Any], str]:
    """Central differences beside the two other oracles, and whether they side with the report
    against autograd.
    """
    call = flow.calls[which]
    claimed = float(reported(flow, call(x, context), 1)[0])
    matrix = flow.jacobian(which, x, context)
    truth = float(log_abs_det(matrix)[0])
    observed: dict[str, Any] = {"reported": claimed, "autograd": truth}
    if x.size > DIFFERENCE_SIZE:
        return observed, ""
    try:
        estimate, error = differences(call, x, context)
    except Exception:  # a step beside the point is refused, at the edge of a domain
        observed["disagrees"] = CANNOT_TELL
        return observed, ""
    measured = float(log_abs_det(estimate)[0])
    try:
        sensitivity = float(np.abs(np.linalg.inv(estimate[0])).sum())
    except np.linalg.LinAlgError:
        sensitivity = np.inf
    doubt = DIFFERENCE_FACTOR * (error * sensitivity + 1e-12 * (1 + abs(measured)))
    observed |= {"differences": measured, "differences' error": doubt}
    gap = abs(claimed - truth)
    if not np.isfinite(measured) or not np.isfinite(doubt) or doubt > gap / 2:
        observed["disagrees"] = CANNOT_TELL
        return observed, ""
    near_truth, near_claim = abs(measured - truth) <= doubt, abs(measured - claimed) <= doubt
    if near_claim and not near_truth:
        observed["disagrees"] = "autograd"
        return (
            observed,
            "autograd's Jacobian disagrees with differences, and the log-det agrees with them",
        )
    observed["disagrees"] = "reported" if near_truth else "all three"
    opposite = abs(claimed + truth) <= 1e-6 * (1 + abs(truth)) and abs(truth) > 1e-6
    if opposite:
        observed["note"] = (
            "it is the log-det of the opposite map (declare ?ladj=inverse if that is documented)"
        )
    return observed, ""


def arbitrate_forward(flow: Differentiable, batch: Batch) -> tuple[dict[str, Any], str]:
    """The three oracles for the forward call at one point."""
    return arbitrated(flow, "forward", batch.x, batch.context)


def arbitrate_inverse(flow: Differentiable, batch: Batch) -> tuple[dict[str, Any], str]:
    """The three oracles for the inverse call at one point."""
    return arbitrated(flow, "inverse", latents(flow, batch.x, batch.context), batch.context)
