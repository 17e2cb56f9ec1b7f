"""Gradients through the inverse."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from flowref.laws.bijection.at_size import refuse_to_walk_back
from flowref.laws.bijection.oracles import in_place
from flowref.laws.common.arithmetic import finite_rows, inverse_inputs, rows_max
from flowref.laws.common.outcomes import attempt, finite_outcome_rows
from flowref.laws.common.requirements import in_double, not_estimator
from flowref.model import (
    EXACT,
    NEARBY,
    Array,
    Batch,
    Residual,
    Unsupported,
    draw_points,
    law,
    requires,
)
from flowref.model.abilities import Flow, Invertible, Pulling


class InvertiblePulling(Invertible, Pulling, Protocol):
    """Both directions with vector-Jacobian products."""


# The limit of ordinary points and preimages, and the step away from a kink, at which gradients are
# not specified.
ORDINARY, BESIDE = 1e3, 1e-3
# Factor of points farther out, beyond the interval of a spline, whose tail is chosen by
# torch.where.
FARTHER = 4.0


@requires("its inverse is iterative, and what autograd records of it is not its derivative")
def goes_straight_back(flow: Flow) -> bool:
    """The inverse is in closed form."""
    return not flow.certainty.inverse


@law(
    "gradient/finite[inverse]",
    key="bijection/inverse-gradient-finite",
    points="latents",
    scanned=True,
    tolerance=EXACT,
    local=False,
    effort=2,
    size=16,
    scales=NEARBY,
    applies=goes_straight_back & in_double & not_estimator,
    source="a nan in the branch that torch.where does not choose is still a nan in the gradient (flowjax issue 239)",
    pointwise=True,
    version=3,
)
def inverse_gradient_finite(flow: InvertiblePulling, batch: Batch) -> Residual:
    """The gradient of the inverse is finite wherever the inverse is, at ordinary points and four
    times as far out, and next to them.
    """
    refuse_to_walk_back(flow, batch.x[0].size)
    rng = np.random.default_rng(batch.seed)
    support = flow.domain if flow.codomain is None else flow.codomain
    z = inverse_inputs(flow, draw_points(support, batch.x.shape, rng), batch.context)
    good, lost = lost_at(flow, z, batch)
    if support.kind == "real":
        there, far = lost_at(flow, FARTHER * z, batch)
        if far.any() and not lost.any():
            z = FARTHER * z
        good, lost = good | there, lost | far
    note = ""
    if lost.any():
        _, of_value = gradient_at(flow, z, batch, log_det=False)
        whose = "its log-det" if finite_rows(of_value)[lost].all() else "it"
        note = f"the inverse is finite, and the gradient through {whose} is not"
    return Residual(lost.astype(float), decidable=good, note=note, observed={"z": z})


def lost_at(flow: InvertiblePulling, z: Array, batch: Batch) -> tuple[Array, Array]:
    """Masks ``(n,)``: the points that can be judged, and those whose gradient is not finite, there
    and next to them.
    """
    good, lost = np.ones(len(z), dtype=bool), np.ones(len(z), dtype=bool)
    for points in (z * (1 - BESIDE), z):
        known, gradient = gradient_at(flow, points, batch)
        good, lost = good & known, lost & ~finite_rows(gradient)
    return good, lost & good


def gradient_at(
    flow: InvertiblePulling, z: Array, batch: Batch, log_det: bool = True
) -> tuple[Array, Array]:
    """Whether points and preimages are ordinary, ``(n,)``; and the gradient of the sum of the
    entries, with ``log_det`` also of the log-det, ``(n, ...)``. Raises `Unsupported` if autograd
    cannot differentiate the inverse.
    """
    out = flow.inverse(z, batch.context)
    rows = len(z)
    value = np.asarray(out.value, dtype=np.float64)
    known = finite_outcome_rows(out, rows) & finite_rows(z)
    known &= (rows_max(z) <= ORDINARY) & (rows_max(np.nan_to_num(value)) <= ORDINARY)
    with_log_det = (
        log_det
        and out.ladj is not None
        and np.ndim(out.ladj) > 0
        and len(np.asarray(out.ladj)) == rows
    )
    cotangents = (np.ones(value.shape), np.ones(rows) if with_log_det else None)
    gradient, refused = attempt(flow.vjp, "inverse", z, batch.context, *cotangents)
    if refused:
        words = "overwrites what autograd needs" if in_place(RuntimeError(refused)) else refused
        raise Unsupported(f"it cannot be differentiated here ({words})", blocked=False)
    return known, np.asarray(gradient, dtype=np.float64)
