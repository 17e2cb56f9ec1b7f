"""Log-determinants: a returned log-det is log|det d output / d input| of the call that returned
it, in either direction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from flowref.laws.bijection.at_size import refuse_to_walk_back
from flowref.laws.bijection.oracles import (
    DIFFERENCE_FACTOR,
    against_autograd,
    arbitrate_forward,
    arbitrate_inverse,
    in_place,
    log_det_tolerance,
)
from flowref.laws.bijection.roundtrip import inverse_tolerance
from flowref.laws.common.amounts import planned, sparing
from flowref.laws.common.arithmetic import (
    NOT_BACK,
    finite_rows,
    inverse_inputs,
    invertible_images,
    reported,
    resolvable,
    returned,
    richardson_jacobian,
    rows_max,
    square_matrices,
)
from flowref.laws.common.cases import CONTEXT, INVERSE_IN_TRAINING, RESIZED, TRAIN
from flowref.laws.common.end_rounding import finite_beside
from flowref.laws.common.requirements import (
    exact_log_det,
    forward_in_closed_form,
    moves_smoothly,
    true_gradients,
    weights_as_given,
)
from flowref.laws.common.slopes import Slope
from flowref.laws.common.structure import LARGE
from flowref.model import VALUES, VOLUME, Array, Batch, Mapped, Residual, Unsupported, law, requires
from flowref.model.abilities import (
    Bijection,
    Differentiable,
    Flow,
    Invertible,
    Parametric,
    Pulling,
    Rounded,
    Walked,
    offers,
)


class BijectionParametric(Bijection, Parametric, Protocol):
    """A map with trainable parameters."""


class DifferentiableInvertible(Differentiable, Invertible, Protocol):
    """An invertible map with Jacobians by autograd."""


class PulledBothWays(Differentiable, Invertible, Pulling, Walked, Protocol):
    """An invertible map with vector-Jacobian products in both directions."""


class PulledInverse(Invertible, Pulling, Protocol):
    """An invertible map with gradients by autograd."""


FORMULA = "change of variables; Rezende and Mohamed, Variational Inference with Normalizing Flows (arXiv:1505.05770)"
# Relative error of a round trip up to which an inverse counts as having returned, and the condition number from
# which on a product of Jacobians decides nothing.
ROUND_TRIP_ERROR, WORST_CONDITION = 1e-4, 1e8
# Random cotangents that represent an identity matrix too large to compute.
PULLBACKS = 3
# Entries of an event for which a log-det of a thousand is large.
ORDINARY = 16
# Allowed relative error of autograd's derivative of a log-det.
SLOPE_ERROR = 1e-7
# A product of differences with a larger error decides nothing.
DECISIVE = 1e-3


def brought_back(back: Array, x: Array) -> Array:
    """Where the inverse returned to its point in every coordinate, ``(n,)``, each relative to its
    own size. Other rows are reported by the round trip.
    """
    if back.shape != x.shape:
        return np.zeros(len(x), dtype=bool)
    return np.asarray(rows_max((back - x) / (1 + np.abs(x))) <= ROUND_TRIP_ERROR)


def not_inverted_note(usable: Array, near: Array) -> str:
    """The note if the inverse recovers no usable point; else empty."""
    return NOT_BACK if usable.any() and not (usable & near).any() else ""


@law(
    "map/log-det",
    key="bijection/log-det",
    nats=True,
    about=VOLUME,
    scanned=True,
    localize_in_parts=True,
    applies=exact_log_det,
    arbitrate=arbitrate_forward,
    source=FORMULA,
    pointwise=True,
    version=2,
    cases=(TRAIN, CONTEXT, RESIZED),
)
def log_det(flow: Differentiable, batch: Batch) -> Residual:
    r"""The log-det returned by forward is $\log|\det \partial f / \partial x|$, as autograd and finite
    differences measure it.
    """
    return against_autograd(flow, "forward", batch.x, batch.context)


@requires(
    "its inverse is promised to be iterative; map/log-det[antisymmetry] judges its log-det",
    blocked=True,
)
def inverse_in_closed_form(flow: Flow) -> bool:
    """An iterative inverse is differentiated only as far as it converged."""
    return not flow.certainty.inverse


@law(
    "map/log-det[inverse]",
    key="bijection/inverse-log-det",
    nats=True,
    about=VOLUME,
    scanned=True,
    points="latents",
    localize_in_parts=True,
    applies=inverse_in_closed_form & exact_log_det,
    arbitrate=arbitrate_inverse,
    source=FORMULA,
    pointwise=True,
    version=2,
    cases=(TRAIN, CONTEXT, RESIZED),
)
def inverse_log_det(flow: DifferentiableInvertible, batch: Batch) -> Residual:
    r"""The log-det returned by inverse is $\log|\det \partial f^{-1} / \partial z|$, as autograd
    and finite differences measure it.
    """
    return against_autograd(
        flow, "inverse", inverse_inputs(flow, batch.x, batch.context), batch.context
    )


@law(
    "map/log-det[antisymmetry]",
    key="bijection/log-det-antisymmetry",
    nats=True,
    about=VOLUME,
    scanned=True,
    localize_in_parts=True,
    applies=exact_log_det,
    source="inverse function theorem",
    pointwise=True,
)
def log_det_antisymmetry(flow: Invertible, batch: Batch) -> Residual:
    r"""The log-dets of the two directions cancel:
    $\mathrm{ladj}_{f^{-1}}(f(x)) = -\mathrm{ladj}_f(x)$.
    """
    out = flow.forward(batch.x, batch.context)
    image, usable = invertible_images(flow, out.value)
    back = flow.inverse(image, batch.context)
    forward, inverse = reported(flow, out, len(batch.x)), reported(flow, back, len(batch.x))
    slack: Array | float = 0.0
    tolerance = inverse_tolerance(flow, batch.x)
    if tolerance.any():
        step = tolerance.reshape(-1, *[1] * (batch.x.ndim - 1))
        moved = [
            reported(flow, flow.forward(batch.x + s * step, batch.context), len(step))
            for s in (1.0, -1.0)
        ]
        slack = 4 * np.maximum(*(np.abs(value - forward) for value in moved)) + tolerance
    near = brought_back(back.value, batch.x)
    return Residual(
        forward + inverse,
        scale=4 + np.where(np.isfinite(forward), np.abs(forward), 0.0),
        allowed=slack + log_det_tolerance(flow, forward),
        decidable=usable & finite_rows(forward) & near,
        note=not_inverted_note(usable, near),
        observed={"forward's log-det": forward, "inverse's log-det": inverse},
    )


def arbitrate_product(flow: DifferentiableInvertible, point: Batch) -> tuple[dict[str, Any], str]:
    """Differences of an inverse that solves its coordinates one by one: if they give the inverse
    matrix, autograd lost the in-place writes of the loop, and the map is right. Custom derivative
    rules are judged regardless.
    """
    ruled = flow.promises.get("own-rule")
    if ruled or point.x[0].size < 2 or not one_by_one(flow, point):
        return {}, ""
    y = flow.forward(point.x, point.context).value
    try:
        inverse, error = richardson_jacobian(flow.inverse, y, point.context)
    except Exception:  # a step off the point is rejected
        return {}, ""
    forward = square_matrices(flow.jacobian("forward", point.x, point.context))[0]
    gap = np.abs(inverse[0] @ forward - np.eye(len(forward))).max()
    allowed = DIFFERENCE_FACTOR * (error * np.abs(forward).sum() + 1e-9)
    if gap <= allowed < DECISIVE:
        return {}, "differences of the inverse are right: autograd alone is wrong, in a loop"
    return {}, ""


def one_by_one(flow: Invertible, point: Batch) -> bool:
    """Whether the inverse takes about ``d`` times the operations of forward, with ``d``
    coordinates.
    """
    there = flow.forward.observe(point.x, point.context).operations
    y = flow.forward(point.x, point.context).value
    back = flow.inverse.observe(y + 0.0, point.context).operations
    return bool(back >= (point.x[0].size - 0.5) * max(1, there))


# Larger numbers have no finite square.
SQUARED = 1e150


@law(
    "map/inverse-jacobian",
    key="bijection/jacobian-inverse-product",
    about=VALUES,
    version=2,
    applies=inverse_in_closed_form & exact_log_det & moves_smoothly,
    arbitrate=arbitrate_product,
    effort=4,
    source="inverse function theorem",
    pointwise=True,
)
def jacobian_inverse_product(flow: DifferentiableInvertible, batch: Batch) -> Residual:
    r"""The derivatives of the two directions are inverse matrices: $J_{f^{-1}}(f(x))\, J_f(x) =
    I$.
    """
    if batch.x[0].size > LARGE and offers(flow, PulledBothWays):
        return inverse_pullbacks(flow, batch)
    image, usable, note = round_trip_points(flow, batch)
    forward = square_matrices(flow.jacobian("forward", batch.x, batch.context))
    try:
        inverse = square_matrices(flow.jacobian("inverse", image, batch.context))
    except Unsupported:
        if not cut_off(flow, batch, image):
            raise
        inverse = np.zeros_like(forward)
    except RuntimeError as error:
        if not in_place(error):
            raise
        reason = "autograd cannot differentiate its inverse, which writes in place"
        raise Unsupported(reason) from error
    product = inverse @ forward
    # The product is judged in extended precision; its size needs double precision only.
    there, here = forward.astype(np.float64), inverse.astype(np.float64)
    size = (np.abs(here) @ np.abs(there)).reshape(len(image), -1).max(1)
    usable &= finite_rows(there, here) & (size < WORST_CONDITION)
    # Derivatives such as that of asinh square their argument, which overflows.
    usable &= rows_max(there) < SQUARED
    return Residual(
        product - np.eye(product.shape[-1]),
        scale=np.maximum(1.0, size),
        decidable=usable & resolvable(there, np.linalg.slogdet(there)[1]),
        note=note,
        observed={"J of inverse": here, "J of forward": there},
    )


def round_trip_points(flow: Invertible, batch: Batch) -> tuple[Array, Array, str]:
    """Images ``(n, *latent)``, the rows that the inverse recovers ``(n,)``, and the note if there
    are none.
    """
    image, usable = invertible_images(flow, flow.forward(batch.x, batch.context).value)
    back = flow.inverse(image, batch.context).value
    near = brought_back(back, batch.x)
    return image, usable & near, not_inverted_note(usable, near)


def inverse_pullbacks(flow: PulledBothWays, batch: Batch) -> Residual:
    """The product of matrices too large to compute, applied to random cotangents: pulling back
    through both directions returns the cotangent.
    """
    refuse_to_walk_back(flow, batch.x[0].size)
    image, usable, note = round_trip_points(flow, batch)
    rng = np.random.default_rng(batch.seed)
    rows, context = len(batch.x), batch.context
    gaps, size = [], np.ones(rows)
    pullbacks = planned(flow, PULLBACKS, 1)
    # The scale of the gap is not recomputed under noise for expensive flows.
    again = sparing(flow) and offers(flow, Rounded) and flow.rounding()
    for _ in range(pullbacks):
        start = rng.standard_normal(batch.x.shape)
        between = flow.vjp("inverse", image, context, start, None)
        end = flow.vjp("forward", batch.x, context, between, None)
        gaps.append(np.asarray(end - start, dtype=np.float64).reshape(rows, -1))
        if again:
            continue
        signs = rng.choice((-1.0, 1.0), np.shape(between)) * rows_max(between).reshape(
            -1, *[1] * (np.ndim(between) - 1)
        )
        size = np.maximum(size, rows_max(flow.vjp("forward", batch.x, context, signs, None)))
    gap = np.concatenate(gaps, 1)
    return Residual(
        gap,
        scale=np.where(np.isfinite(size), size, 1.0),
        decidable=usable & finite_rows(gap, size) & (size < WORST_CONDITION),
        note=note,
        method=f"on {pullbacks} random cotangent{'s' if pullbacks > 1 else ''}",
    )


def cut_off(flow: Invertible, batch: Batch, y: Array) -> bool:
    """Whether only the value of the inverse lost its graph, in a closed form that could have kept
    it.

    Exempt are inverses that run without gradients, whose log-det has no graph either, and
    iterative ones (by their number of operations), which commonly search without gradients.
    """
    if not offers(flow, PulledInverse):
        return False
    try:
        flow.vjp("inverse", y + 0.0, batch.context, None, np.ones(len(y)))
    except Unsupported:
        return False
    there = flow.forward.observe(batch.x, batch.context).operations
    back = flow.inverse.observe(y + 0.0, batch.context).operations
    ratio, size = back / max(1, there), y[0].size
    sequential = size <= 8 and size - 1.5 <= ratio <= size + 2
    return bool(ratio <= 3 or sequential)


def echo(flow: BijectionParametric, batch: Batch) -> Callable[[], Array]:
    """The self-comparison noise of `log_det_gradient`; see `Slope.echo`."""
    return slope_of_log_det(flow, batch)[0].echo(len(batch.x))


@law(
    "gradient/parameters[log-det]",
    key="bijection/log-det-gradient",
    about=VOLUME,
    effort=4,
    size=16,
    applies=true_gradients & forward_in_closed_form & weights_as_given & exact_log_det,
    pointwise=True,
    version=4,
    cases=(INVERSE_IN_TRAINING, TRAIN, CONTEXT),
    echo=echo,
)
def log_det_gradient(flow: BijectionParametric, batch: Batch) -> Residual:
    r"""Autograd's derivative of the log-det with respect to the parameters is its derivative:
    $\partial_\theta \mathrm{ladj}$.

    Measured along one direction of parameter space, against Richardson-extrapolated differences of
    the returned log-det.
    """
    slope, usable = slope_of_log_det(flow, batch)
    if not usable.any():
        return Residual(np.zeros(len(usable)), decidable=usable)
    return slope.compared(SLOPE_ERROR).residual(usable)


def slope_of_log_det(flow: BijectionParametric, batch: Batch) -> tuple[Slope, Array]:
    """The derivative of the log-det, and the points it is taken over, ``(n,)``: those with
    log-dets of ordinary size.
    """

    def log_dets(out: Mapped) -> Array:
        return returned(out, len(np.asarray(out.value)))

    base = log_dets(flow.along("forward", batch.x, batch.context, batch.seed, 0.0))
    usable = np.isfinite(base) & (np.abs(base) < 1e3 * max(1.0, batch.x[0].size / ORDINARY))
    usable &= finite_beside(flow, "forward", (batch.x, batch.context), batch.seed)
    some = batch if usable.all() else batch.rows(usable)
    inputs = (some.x, some.context)
    return Slope(flow, "forward", inputs, batch.seed, log_dets, np.ones(len(some.x))), usable
