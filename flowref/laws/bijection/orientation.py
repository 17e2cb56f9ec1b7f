"""Properties that log|det J| does not show: the sign of the determinant, and determinants that are
zero.
"""

from __future__ import annotations

import numpy as np

from flowref.laws.bijection.oracles import in_place
from flowref.laws.bijection.zeros_at_size import PullingBijection, zeros_at_size
from flowref.laws.common.arithmetic import (
    TINY,
    finite_rows,
    log_abs_det,
    reported,
    resolvable,
    rows_max,
    square_matrices,
)
from flowref.laws.common.cases import TRAINED
from flowref.laws.common.outcomes import attempt
from flowref.laws.common.requirements import exact_log_det, true_gradients
from flowref.laws.common.structure import WHOLE
from flowref.model import EXACT, VOLUME, Array, Batch, Residual, Unsupported, draw_points, law
from flowref.model.abilities import Bijection, Differentiable, Invertible, offers

ULP = 2.0**-53
# The number of nats by which a determinant may cancel before its sign is not trusted; points tried
# as the reference.
CANCELED, REFERENCES = 12.0, 3
# Steps at which the map must be as flat as its Jacobian, relative to 1 + |x|; slack, in nats,
# between a log-det and that of a map that is flat to rounding.
ASIDE, SLACK = 1e-3, 10.0
# Relative error up to which an inverse counts as having returned.
BACK = 1e-6
# Suspected points of a batch that are examined.
EXAMINED = 6


@law(
    "map/one-to-one[orientation]",
    key="bijection/orientation",
    scanned=True,
    effort=4,
    size=16,
    source="the determinant of a diffeomorphism vanishes nowhere, and so keeps its sign on a connected set",
    pointwise=True,
    cases=(TRAINED,),
)
def orientation(flow: Differentiable, batch: Batch) -> Residual:
    r"""The sign of $\det \partial f / \partial x$ is the same at every point, under one context: a
    change of sign is a fold, which $\log|\det|$ does not show. Exempt are points at which the map
    is not finite, and jumps between points that the inverse recovers.
    """
    rows = len(batch.x)
    out = flow.forward(batch.x, batch.context)
    if out.ladj is None and not offers(flow, Invertible):
        raise Unsupported(
            "it is not known to be a bijection: it has no inverse and returns no log-det"
        )
    here = np.where(finite_rows(out.value), signs(flow, batch.x, batch.context), 0.0)
    ordinary = draw_points(flow.domain, (REFERENCES, *flow.event_shape), np.random.default_rng(7))
    there = np.zeros(rows)
    for point in ordinary:
        alone = batch.context is None
        x = np.repeat(point[None], 1 if alone else rows, axis=0)
        taken = finite_rows(flow.forward(x, batch.context).value)
        found = np.broadcast_to(np.where(taken, signs(flow, x, batch.context), 0.0), (rows,))
        there = np.where(there == 0, found, there)
        if there.all():
            break
    turned = here * there < 0
    if turned.any() and brought_back(flow, ordinary, batch.context).all():
        turned &= ~brought_back(flow, batch.x, batch.context)
    return Residual(
        turned.astype(float),
        decidable=(here != 0) & (there != 0),
        observed={"sign of det J": here, "elsewhere": there},
        note="the determinant changes its sign, so the map folds in between",
    )


def brought_back(flow: Differentiable, x: Array, context: Array | None) -> Array:
    """Where the inverse returns to the point, ``(n,)``; all False without an inverse."""
    if not offers(flow, Invertible):
        return np.zeros(len(x), dtype=bool)
    if context is not None and len(context) != len(x):
        context = np.repeat(context[:1], len(x), axis=0)
    out, error = attempt(flow.inverse, flow.forward(x + 0.0, context).value, context)
    back = np.asarray(np.nan if error else out.value)
    if back.shape != x.shape:
        return np.zeros(len(x), dtype=bool)
    with np.errstate(invalid="ignore"):
        near = np.abs(back - x) <= BACK * (1 + np.abs(x))
    return np.asarray(near.reshape(len(x), -1).all(1))


def derivative(flow: Differentiable, x: Array, context: Array | None) -> Array:
    """The Jacobians of forward, ``(n, d, d)``. Raises `Unsupported` if in-place writes block
    autograd, which the log-det law reports, or events are too large.
    """
    if x[0].size > WHOLE:
        raise Unsupported(
            f"its Jacobian has {x[0].size} x {x[0].size} entries: the sign of its determinant is asked "
            f"of up to {WHOLE} entries a side; build it smaller",
            blocked=True,
        )
    try:
        return flow.jacobian("forward", x, context)
    except RuntimeError as error:
        if not in_place(error):
            raise
        raise Unsupported("autograd cannot differentiate it, since it writes in place") from error


def signs(flow: Differentiable, x: Array, context: Array | None) -> Array:
    """The sign of the determinant per point, 0 if uncertain, ``(n,)``."""
    matrices = square_matrices(derivative(flow, x, context))
    truth = log_abs_det(matrices)
    largest = np.abs(matrices).max(2)
    with np.errstate(all="ignore"):
        canceled = np.log(largest).sum(1) - truth
        scaled = matrices / np.where(largest > 0, largest, 1)[:, :, None]
    certain = resolvable(matrices, truth) & (canceled < CANCELED) & (largest > 1e-150).all(1)
    sign = np.zeros(len(x))
    sign[certain] = np.linalg.slogdet(scaled[certain].astype(np.float64))[0]
    return sign


@law(
    "map/singular-jacobian",
    key="bijection/honest-zero",
    about=VOLUME,
    scanned=True,
    tolerance=EXACT,
    local=False,
    effort=4,
    size=16,
    applies=exact_log_det & true_gradients,
    source="a clamped coordinate has derivative zero, whose logarithm is no ordinary number",
    pointwise=True,
)
def honest_zero(flow: Differentiable, batch: Batch) -> Residual:
    """If the map does not depend on a coordinate, or an output is constant, its log-det is not an
    ordinary number.

    The Jacobian has a row or column of zeros there, and the map is flat on either side of the
    point. A map that is flat by rounding only has a log-det of about one unit in the last place.
    """
    out = flow.forward(batch.x, batch.context)
    claimed = reported(flow, out, len(batch.x))
    if batch.x[0].size > WHOLE and offers(flow, PullingBijection):
        return zeros_at_size(flow, batch, out, claimed)
    matrices = derivative(flow, batch.x, batch.context).astype(np.float64)
    square_matrices(matrices[:0])
    finite = finite_rows(out.value, claimed) & finite_rows(matrices)
    lies = np.zeros(len(batch.x), dtype=bool)
    for axis in (1, 2):
        suspected = finite & (claimed > honest(flow, batch.x, out.value, matrices, axis) + SLACK)
        for row in np.flatnonzero(suspected)[:EXAMINED]:
            lies[row] |= is_flat_around(flow, batch.rows(slice(row, row + 1)), matrices[row], axis)
    return Residual(
        lies.astype(float),
        decidable=finite,
        observed={"reported": claimed},
        note="the Jacobian has a row or column of zeros, and the log-det cannot be that of such a map",
    )


def honest(flow: Differentiable, x: Array, y: Array, matrices: Array, axis: int) -> Array:
    """The largest log-det of a map whose Jacobian has zeros along an axis (1: columns, 2: rows) by
    rounding only, ``(n,)``; inf without zeros. Outputs below 1 round like 1, as a distribution
    function is computed near one half.
    """
    zero = (matrices == 0).all(axis)
    sizes = np.linalg.norm(matrices, axis=axis)
    rounded = (
        ULP * np.maximum(rows_max(y), 1.0) / (ASIDE * (1 + np.abs(x.reshape(len(x), -1)).min(1)))
    )
    with np.errstate(all="ignore"):
        others = np.where(zero, 0.0, np.log(np.maximum(sizes, TINY))).sum(1)
        bound = others + zero.sum(1) * np.log(np.maximum(rounded, ULP**2))
    regular = zero.any(1) & (zero | (sizes > TINY)).all(1)
    return np.where(regular, bound, np.inf)


def is_flat_around(flow: Differentiable, point: Batch, matrix: Array, axis: int) -> bool:
    """Whether the map is flat on either side of a point in the rows or columns (``axis``) of zeros
    of its Jacobian.
    """
    zero = (matrix == 0).all(axis - 1)
    start = point.x.reshape(-1)
    step = ASIDE * (1 + np.abs(start))
    moves = np.concatenate([sign * np.diag(step) for sign in (1.0, -1.0)])
    if axis == 1:  # move only the coordinates in question
        moves = moves[np.tile(zero, 2)]
    there = (start + moves).reshape(-1, *point.x.shape[1:])
    if not flow.domain.holds(there).all():
        return False
    change = images_of_points(flow, there, point.context) - images_of_points(
        flow, point.x, point.context
    )
    change = change if axis == 1 else change[:, zero]
    return bool((change == 0).all())


def images_of_points(flow: Bijection, x: Array, context: Array | None) -> Array:
    """Images under the first context, ``(points, outputs)``."""
    contexts = None if context is None else np.repeat(context[:1], len(x), axis=0)
    value = np.asarray(flow.forward(x + 0.0, contexts).value, dtype=np.float64)
    return value.reshape(len(x), -1)
