"""Three oracles of a log-det: the call that returned it, autograd's Jacobian, and differences."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowref.laws.bijection.at_size import vjp_agrees_with_differences
from flowref.laws.bijection.structured_log_det import cached_log_det, log_det_by_structure
from flowref.laws.common.amounts import stepwise
from flowref.laws.common.arithmetic import (
    finite_rows,
    inverse_inputs,
    log_abs_det,
    reported,
    resolvable,
    richardson_jacobian,
    square_matrices,
)
from flowref.laws.common.structure import LARGE
from flowref.model import Array, Batch, Mapped, Residual, Unsupported
from flowref.model.abilities import Differentiable, Flow, Walked, offers

# Differences decide only beyond this multiple of their error estimate, and never alone.
DIFFERENCE_FACTOR = 20.0
# The largest event whose Jacobian is computed by differences for the report.
DIFFERENCE_SIZE = 128
CANNOT_TELL = "reported or autograd (differences cannot decide)"


# Error texts of frameworks and backends for a tensor of the graph that was overwritten; rows that
# are then differentiated by differences, and the largest event.
IN_PLACE = ("inplace operation", "in-place operation", "overwrites what autograd needs")
DIFFERENCED, SMALL = 12, 16
# Oracles with a larger error, in nats, decide nothing; for events larger than `LARGE`, scaled by
# the number of entries.
WORTH = 1e-2
# A measured log-det that noise moves by more nats is unknown: 1 - y of a saturated softmax is one
# unit in the last place, where the truth is 1e-74.
SPAN = 0.5


def in_place(error: BaseException) -> bool:
    """Whether autograd raised because a tensor that it needs was overwritten."""
    return any(words in str(error) for words in IN_PLACE)


def jacobians(
    flow: Differentiable, which: str, x: Array, context: Array | None
) -> tuple[Array, Array]:
    """The Jacobians of a call, ``(n, *out, *in)``, and the error of each, ``(n,)``: 0 by autograd.

    An inverse that solves its coordinates in place is correct, but autograd cannot differentiate
    it: the first points are then differentiated by differences, the others nan. Raises
    `Unsupported` if there are too many coordinates.
    """
    try:
        return flow.jacobian(which, x, context), np.zeros(len(x))
    except (RuntimeError, Unsupported) as error:
        if which != "inverse" or not in_place(error):
            raise
    if x[0].size > SMALL:
        raise Unsupported("autograd cannot differentiate its inverse, which writes in place")
    matrices = np.full((len(x), x[0].size, x[0].size), np.nan)
    errors = np.zeros(len(x))
    for row in range(min(len(x), DIFFERENCED)):
        one = slice(row, row + 1)
        contexts = None if context is None else context[one]
        matrices[one], errors[row] = richardson_jacobian(flow.calls[which], x[one], contexts)
    return matrices, errors


def against_autograd(flow: Differentiable, which: str, x: Array, context: Array | None) -> Residual:
    r"""The residual: reported minus autograd's $\log|\det J|$ of one call."""
    call = flow.calls[which]
    out = call(x, context)
    claimed = reported(flow, out, len(x))
    if (x[0].size > LARGE or stepwise(flow, which)) and offers(flow, Walked):
        return against_structure(flow, which, x, context, out)
    matrices, errors = jacobians(flow, which, x, context)
    square_matrices(matrices[:0])
    truth = log_abs_det(matrices)
    decidable = finite_rows(out.value) & resolvable(matrices, truth)
    slack = np.zeros(len(x))
    for row in np.flatnonzero(errors * decidable):
        lost = errors[row] * np.abs(np.linalg.inv(matrices[row])).sum()
        slack[row] = DIFFERENCE_FACTOR * (lost + 1e-12 * (1 + abs(truth[row])))
        decidable[row] &= slack[row] < WORTH
    return Residual(
        np.where(decidable, claimed - np.where(decidable, truth, 0.0), 0.0),
        scale=4 + np.where(np.isfinite(truth), np.abs(truth), 0.0),
        allowed=slack + log_det_tolerance(flow, truth),
        decidable=decidable,
        span=SPAN,
        observed={"reported": claimed, "differences" if errors.any() else "autograd": truth},
    )


def against_structure(
    flow: Walked, which: str, x: Array, context: Array | None, out: Mapped
) -> Residual:
    """The same for an event too large for its Jacobian: by structure, or by parts."""
    claimed = reported(flow, out, len(x))
    structured = log_det_by_structure(flow, which, x, context, claimed)
    decidable = finite_rows(out.value, structured.log_det) & structured.known
    decidable &= structured.error < WORTH * max(1.0, x[0].size / LARGE)
    method = structured.how
    if (structured.error[decidable] >= WORTH).any():
        method += f", within {structured.error[decidable].max():.2g} nats"
    return Residual(
        np.where(decidable, claimed - structured.log_det, 0.0),
        scale=4 + np.abs(structured.log_det),
        allowed=structured.error + log_det_tolerance(flow, structured.log_det),
        decidable=decidable,
        span=SPAN,
        observed={"reported": claimed, "autograd": structured.log_det},
        method=method,
    )


def log_det_tolerance(flow: Flow, log_det: Array) -> Array:
    """The declared error of an integrated log-det per point, ``(n,)``, absolute and relative."""
    promised = flow.certainty.log_det
    return promised * (1 + np.where(np.isfinite(log_det), np.abs(log_det), 0.0))


def arbitrated(
    flow: Differentiable, which: str, x: Array, context: Array | None
) -> tuple[dict[str, Any], str]:
    """Central differences as a third oracle, and a note if they confirm the reported log-det
    against autograd.
    """
    call = flow.calls[which]
    claimed = float(reported(flow, call(x, context), 1)[0])
    if x[0].size > LARGE and offers(flow, Walked):
        return arbitrated_at_size(flow, which, x, context, claimed)
    matrix, errors = jacobians(flow, which, x, context)
    truth = float(log_abs_det(matrix)[0])
    if errors.any():
        return {"reported": claimed, "differences": truth}, ""
    observed: dict[str, Any] = {"reported": claimed, "autograd": truth}
    if x.size > DIFFERENCE_SIZE:
        return observed, ""
    try:
        estimate, error = richardson_jacobian(call, x, context)
    except Exception:  # a step off the point leaves the domain
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
        if which == "inverse" and opposite_of_forward(flow, x, context, claimed, gap):
            return observed, "autograd alone disagrees, with the inverse and with forward"
        return observed, ""
    near_truth = abs(measured - truth) <= doubt
    promised = float(log_det_tolerance(flow, np.array([measured]))[0])
    near_claim = abs(measured - claimed) <= doubt + promised
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


def arbitrated_at_size(
    flow: Walked, which: str, x: Array, context: Array | None, claimed: float
) -> tuple[dict[str, Any], str]:
    """The same for an event too large for differences in every coordinate, along a few lines."""
    structured = cached_log_det(flow, which, x, context)
    observed = {"reported": claimed, "autograd": float(structured.log_det[0])}
    if vjp_agrees_with_differences(flow, which, x, context):
        return observed, ""
    return observed, "autograd's Jacobian disagrees with differences along a line"


def opposite_of_forward(
    flow: Differentiable, z: Array, context: Array | None, claimed: float, gap: float
) -> bool:
    """Whether forward, at the point returned by the inverse, reports minus this log-det, far more
    accurately than the gap to autograd.
    """
    try:
        back = flow.calls["inverse"](z, context).value
        there = float(reported(flow, flow.forward(back + 0.0, context), 1)[0])
    except Exception:  # there is no forward, or it rejects the point
        return False
    return abs(there + claimed) <= 1e-3 * gap


def arbitrate_forward(flow: Differentiable, batch: Batch) -> tuple[dict[str, Any], str]:
    """The three oracles of forward at one point."""
    return arbitrated(flow, "forward", batch.x, batch.context)


def arbitrate_inverse(flow: Differentiable, batch: Batch) -> tuple[dict[str, Any], str]:
    """The three oracles of the inverse at one point."""
    return arbitrated(flow, "inverse", inverse_inputs(flow, batch.x, batch.context), batch.context)
