"""Gradients of an inverse that is computed by a solver."""

from __future__ import annotations

import numpy as np

from flowref.laws.bijection.log_det import (
    DifferentiableInvertible,
    PulledInverse,
    brought_back,
)
from flowref.laws.common.arithmetic import finite_rows, invertible_images, rows_max, square_matrices
from flowref.laws.common.outcomes import attempt
from flowref.laws.common.requirements import (
    exact_log_det,
    forward_in_closed_form,
    in_double,
    true_gradients,
)
from flowref.laws.common.structure import LARGE
from flowref.model import BOUND, NEARBY, Batch, Residual, Unsupported, law, requires
from flowref.model.abilities import Flow, offers

# Allowed relative error of a gradient through the steps of a solver; limits of tested points and of
# the condition number.
WRONG, REACH, CONDITION = 0.02, 16.0, 1e4


@requires("its inverse is computed in closed form, or its events are large")
def solves(flow: Flow) -> bool:
    """The inverse iterates to a tolerance, and events are small."""
    size = int(np.prod(flow.event_shape))
    return flow.certainty.inverse > 0 and size <= LARGE


@law(
    "map/inverse-jacobian[solver]",
    key="bijection/solved-inverse-gradient",
    tolerance=BOUND,
    local=False,
    effort=2,
    size=7,
    scales=NEARBY,
    applies=solves & forward_in_closed_form & true_gradients & exact_log_det & in_double,
    version=2,
    source="the inverse function theorem; what autograd records of a search is the derivative of its bracket, not of the root",
)
def solved_inverse_gradient(flow: DifferentiableInvertible, batch: Batch) -> Residual:
    r"""A recorded gradient of an iterative inverse is that of the inverse, within two percent:
    $J_{f^{-1}}(f(x))\, J_f(x) = I$.
    """
    y = flow.forward(batch.x, batch.context).value
    image, usable = invertible_images(flow, y)
    back = flow.inverse(image, batch.context).value
    forward = square_matrices(flow.jacobian("forward", batch.x, batch.context)).astype(np.float64)
    matrix, error = attempt(flow.jacobian, "inverse", image, batch.context)
    if error:
        reason = f"autograd cannot differentiate its inverse ({error})"
        raise Unsupported(reason, blocked=False)
    if offers(
        flow, PulledInverse
    ):  # JAX differentiates loops of unknown length in forward mode only
        _, error = attempt(flow.vjp, "inverse", image, batch.context, np.ones_like(image), None)
        if error:
            raise Unsupported(f"no gradient passes through its inverse ({error})", blocked=False)
    inverse = square_matrices(matrix).astype(np.float64)
    product = inverse @ forward
    size = (np.abs(inverse) @ np.abs(forward)).reshape(len(y), -1).max(1)
    # A row of zeros means that no gradient was recorded: the search ran without.
    lost = (np.abs(inverse).max(2) == 0).any(1)
    if lost.all():
        raise Unsupported("its inverse records no gradient", blocked=False)
    near = (rows_max(batch.x) <= REACH) & (size < CONDITION) & ~lost
    usable &= near & finite_rows(forward, inverse) & brought_back(back, batch.x)
    off = np.abs(product - np.eye(product.shape[-1])).reshape(len(y), -1).max(1)
    return Residual(
        np.where(usable, off / np.maximum(1.0, size), 0.0),
        allowed=WRONG,
        decidable=usable,
        observed={"J of inverse": inverse, "J of forward": forward},
    )
