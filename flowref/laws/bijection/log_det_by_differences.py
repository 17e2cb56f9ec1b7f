"""The log-det of maps that autograd cannot differentiate: computed in numpy, detached, or
overwriting tensors in place.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from flowref.laws.bijection.oracles import DIFFERENCE_FACTOR, DIFFERENCE_SIZE
from flowref.laws.common.amounts import stepwise
from flowref.laws.common.arithmetic import (
    finite_rows,
    invertible_images,
    log_abs_det,
    reported,
    richardson_jacobian,
    rows_max,
)
from flowref.laws.common.outcomes import attempt
from flowref.laws.common.requirements import exact_log_det, in_double
from flowref.model import (
    NEARBY,
    VOLUME,
    Array,
    Batch,
    Residual,
    Unsupported,
    draw_points,
    law,
    requires,
)
from flowref.model.abilities import Bijection, Flow, Pulling, offers


class PulledBijection(Bijection, Pulling, Protocol):
    """A map with vector-Jacobian products."""


# The largest error of differences that can still decide, and the largest ordinary coordinate: noise
# does not reveal digits that C code loses farther out.
OPEN, ORDINARY = 1e-3, 32.0


@requires("its events are too large for differences", blocked=True)
def small(flow: Flow) -> bool:
    """A Jacobian by differences takes several calls per coordinate. For larger events, one
    vector-Jacobian product decides whether laws by autograd apply.
    """
    if int(np.prod(flow.event_shape)) <= DIFFERENCE_SIZE:
        return True
    if autograd_differentiates(flow):
        raise Unsupported("autograd gives its Jacobian", blocked=False)
    return False


def autograd_differentiates(flow: Flow) -> bool:
    """Whether autograd differentiates forward and, if there is one, the inverse. Sequential
    inverses are not tested, since other laws use forward for them.
    """
    if not offers(flow, PulledBijection):
        return False
    rng = np.random.default_rng(7)
    x = draw_points(flow.domain, (1, *flow.event_shape), rng)
    context = None if flow.context_shape is None else rng.standard_normal((1, *flow.context_shape))
    y, refused = attempt(lambda: np.asarray(flow.forward(x, context).value) + 0.0)
    if refused or y is None:
        return False
    asked = [("forward", x, rng.standard_normal(y.shape))]
    if "inverse" in flow.calls and not stepwise(flow, "inverse"):
        asked.append(("inverse", y, rng.standard_normal(x.shape)))
    try:
        return not any(
            attempt(flow.vjp, which, points, context, cotangent, None)[1]
            for which, points, cotangent in asked
        )
    except Unsupported:
        return False


@law(
    "map/log-det[differences]",
    key="bijection/log-det-by-differences",
    nats=True,
    about=VOLUME,
    local=False,
    effort=2,
    size=3,
    scales=NEARBY,
    applies=exact_log_det & in_double & small,
    source="change of variables; the definition of a derivative",
)
def log_det_by_differences(flow: Bijection, batch: Batch) -> Residual:
    r"""If autograd records no graph of a map, its log-det is still $\log|\det \partial f /
    \partial x|$ as differences measure it, in either direction, and not nan.
    """
    first = log_det_gaps(flow, displaced_points(flow, batch.x, batch.seed), batch.context)
    if not first:
        raise Unsupported("autograd gives its Jacobian", blocked=False)
    gap, left = np.stack([one[0] for one in first], 1), np.stack([one[1] for one in first], 1)
    if (np.abs(gap) > left).any():  # a kink at one point is none next to it
        again = log_det_gaps(flow, displaced_points(flow, batch.x, batch.seed + 1), batch.context)
        other, slack = (np.stack([one[way] for one in again], 1) for way in (0, 1))
        other = np.where(np.isnan(other), 0.0, other)
        better = np.abs(other) / slack < np.abs(gap) / left
        gap, left = np.where(better, other, gap), np.where(better, slack, left)
    judged = ~np.isnan(gap)
    worst = np.where(judged, np.abs(gap) / left, -1.0).argmax(1)
    every = np.arange(len(gap))
    note = "the log-det is not that of the map, as differences measure it"
    if np.isinf(gap).any():
        note = "the log-det is nan at points of either sign, and the map is smooth there"
    # Without its sign, since which direction is worse may change with rounding.
    return Residual(
        np.where(judged, np.abs(gap), 0.0)[every, worst],
        scale=4.0,
        allowed=np.where(judged, left, 0.0)[every, worst],
        decidable=judged.any(1),
        note=note,
    )


def log_det_gaps(flow: Bijection, x: Array, context: Array | None) -> list[tuple[Array, Array]]:
    """Per direction the reported log-det minus that of differences, and the error of the latter,
    both ``(n,)``, nan if undecided. Directions judged by autograd are left out.
    """
    ways = (log_det_gap(flow, which, x, context) for which in ("forward", "inverse"))
    return [one for one in ways if one is not None]


def displaced_points(flow: Flow, x: Array, seed: int) -> Array:
    """Points moved by more than the steps of differences, where the domain allows it, ``(n,
    *event)``.
    """
    rng = np.random.default_rng(seed)
    step = rng.uniform(2.0**-7, 2.0**-5, x.shape) * rng.choice((-1.0, 1.0), x.shape)
    moved = x + step * (1 + np.abs(x))
    held = flow.domain.holds(moved) | ~flow.domain.holds(x)
    return np.where(held.reshape(-1, *[1] * (x.ndim - 1)), moved, x)


def differentiable(flow: Flow, which: str, points: Array, context: Array | None) -> bool:
    """Whether autograd gives the Jacobian of a call."""
    jacobian = getattr(flow, "jacobian", None)
    if jacobian is None:
        return False
    try:
        _, refused = attempt(jacobian, which, points, context)
    except Unsupported:
        return False
    return not refused


def log_det_gap(
    flow: Bijection, which: str, x: Array, context: Array | None
) -> tuple[Array, Array] | None:
    """One direction of `log_det_gaps`; None if it is not judged by differences."""
    if which not in flow.calls or (which == "inverse" and flow.certainty.inverse):
        return None
    if which == "inverse" and stepwise(flow, which):
        return None  # other laws judge sequential inverses by forward
    points = x if which == "forward" else invertible_images(flow, flow.forward(x, context).value)[0]
    if differentiable(flow, which, points, context):
        return None
    call, rows = flow.calls[which], len(points)
    out = call(points, context)
    if out.ladj is None:
        return None
    claimed, apart, left = reported(flow, out, rows), np.full(rows, np.nan), np.ones(rows)
    never = nowhere_a_number(flow, which, points, context)
    for row in np.flatnonzero(finite_rows(out.value) & (rows_max(points) <= ORDINARY)):
        one = slice(row, row + 1)
        near = None if context is None else context[one]
        found, refused = attempt(richardson_jacobian, call, points[one], near)
        if refused:  # a step off the point leaves the domain
            continue
        estimate, error = found
        with np.errstate(all="ignore"):
            measured = float(log_abs_det(estimate)[0])
            if not np.isfinite(estimate).all() or not np.isfinite(measured):
                continue
            sensitivity = float(np.abs(np.linalg.pinv(estimate[0])).sum())
        slack = DIFFERENCE_FACTOR * (error * sensitivity + 1e-10 * (1 + abs(measured)))
        slack += flow.certainty.log_det * (1 + abs(measured))
        if slack <= OPEN and (never or np.isfinite(claimed[row])):
            apart[row], left[row] = np.inf if never else claimed[row] - measured, slack
    return apart, left


def nowhere_a_number(flow: Bijection, which: str, points: Array, context: Array | None) -> bool:
    """Whether the log-det is nan at points of either sign. Outside of an undeclared domain nan is
    permitted.
    """
    for tried in (points, -points, np.full_like(points, 0.5), np.full_like(points, -0.5)):
        out, refused = attempt(flow.calls[which], tried, context)
        if not refused and not np.isnan(reported(flow, out, len(points))).all():
            return False
    return True
