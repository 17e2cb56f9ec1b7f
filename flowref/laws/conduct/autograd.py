"""Gradients with respect to the input are finite and are the derivatives."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from flowref.laws.common.amounts import sparing
from flowref.laws.common.cases import CONTEXT, INVERSE, TRAIN, TRAINED
from flowref.laws.common.outcomes import attempt, finite_outcome_rows, row_log_dets
from flowref.laws.common.probes import Probe, probe_of
from flowref.laws.common.quotients import (
    DOUBT,
    STEPS_DOWN,
    direction_within_support,
    quotient,
    unit_directions,
)
from flowref.laws.common.requirements import (
    calculated,
    exact_values,
    forward_in_closed_form,
    in_double,
    not_estimator,
    true_gradients,
)
from flowref.laws.conduct.pictures import jacobian_gap, log_det_gradient_gap, score_gap
from flowref.model import (
    GIVEN,
    VOLUME,
    Array,
    Batch,
    Residual,
    Support,
    Undecidable,
    Unsupported,
    draw_points,
    law,
)
from flowref.model.abilities import Bijection, Density, Flow, Pulling, offers
from flowref.model.cost import LENGTHY

# Finite gradients are compared with difference quotients at points up to `FAR`, or at any pixel
# levels; beyond `MODERATE` a clamp may have clipped them.
MODERATE, FAR = 3.0, 16.0
# Ends of a domain below this are ends of data, not guards against overflow.
LEVELS = 2.0**17
# Relative tolerance of gradients beyond `MODERATE`.
COARSE = 1e-3
# Points and coordinates at which clipping by a clamp is tested.
TRIED, ENTRIES = 4, 32
# Relative error up to which values count as equal.
ALIKE = 1e-9


class BijectionPulling(Bijection, Pulling, Protocol):
    """A map with vector-Jacobian products."""


class DensityPulling(Density, Pulling, Protocol):
    """A density with vector-Jacobian products."""


def gradient_residual(flow: Pulling, batch: Batch, which: str, of: str) -> Residual:
    """Autograd's directional derivative of the value or the log-det minus its difference quotient."""
    rows, points = len(batch.x), batch.x
    probe = probe_of(flow, which, points, batch.context)
    out = probe()
    if of == "value" and np.shape(out.value)[:1] != (rows,):
        raise Undecidable(f"{which} returns shape {np.shape(out.value)} for {rows} points")
    weights = (
        unit_directions(np.shape(out.value), batch.seed + 1) if of == "value" else np.ones(rows)
    )
    if of == "log-det" and (out.ladj is None or np.ndim(out.ladj) == 0):
        raise Unsupported("its log-det is a constant")

    def measure(at: Array) -> Array:
        every = np.tile(np.arange(rows), len(at) // rows)
        result = probe.rows(every).at(at)()
        if of == "log-det":
            return row_log_dets(result, len(at))
        return np.asarray(
            (np.asarray(result.value, dtype=np.float64) * weights[every])
            .reshape(len(at), -1)
            .sum(1)
        )

    support = flow.density_support if which == "log_prob" else flow.domain
    direction = direction_within_support(
        points, unit_directions(points.shape, batch.seed) * (1 + np.abs(points)), support
    )
    with np.errstate(all="ignore"):
        lengthy = sparing(flow, LENGTHY)
        # A solver takes its steps once for all rows, and the same at all points that are compared.
        together = lengthy and not (sparing(flow) or flow.certainty.coupled)
        difference = quotient(measure, points, direction, support, lengthy, together)
    slope = difference.slope
    cotangents = (weights, None) if of == "value" else (None, weights)
    try:
        gradient, refused = attempt(flow.vjp, which, points, batch.context, *cotangents)
    except Unsupported:
        if of != "log-det":
            raise
        # A log-det without graph is constant or detached. If the value has no graph either,
        # gradients are not offered.
        ones = np.ones(np.shape(out.value))
        refused = attempt(flow.vjp, which, points, batch.context, ones, None)[1]
        if not (slope != 0).any():
            raise
        gradient = np.zeros(points.shape)
    if refused:
        raise Unsupported(f"it cannot be differentiated here ({refused})")
    gradient = np.asarray(gradient, dtype=np.float64)
    with np.errstate(all="ignore"):
        along = (gradient * direction).reshape(rows, -1).sum(1)
        difference = difference.confirmed_by_smaller_steps(along)
        slope = difference.slope
        # An iterative inverse has the roughness of its tolerance.
        rough = probe.tolerance * (1 + np.abs(slope)) / STEPS_DOWN[-1]
        total = np.abs(np.asarray(out.value, dtype=np.float64)).reshape(rows, -1).sum(1)
        rounding = 2.0**-47 * (1 + total + np.abs(measure(points))) / STEPS_DOWN[-1]
        # Rounding of the shifted points.
        reach = (np.abs(gradient) * np.abs(points)).reshape(rows, -1).sum(1)
        rounding = rounding + 2.0**-53 * np.nan_to_num(reach) / STEPS_DOWN[-1]
        allowed = DOUBT * (difference.error + rounding) + rough + 1e-7 * np.abs(slope)
    good = finite_outcome_rows(out, rows) & difference.resolved(allowed)
    plain = np.isfinite(along)
    size = sized(points, support)
    if flow.facts.preprocessing is not None:
        size[:] = 0.0  # pixel levels are data, not large numbers
    # Far out a closed-form gradient of a value by quadrature is accurate to the quadrature only.
    allowed = allowed + np.where(size > MODERATE, COARSE * (1 + np.abs(slope)), 0.0)
    judged = good & plain & (size <= FAR)
    wrong = judged & (np.abs(along - slope) > allowed)
    # Straight-through clamps are a training device. They act on large inputs or on few points, and
    # some derivative is then exactly zero.
    few = rows > 2 and 2 * (wrong & (size <= MODERATE)).sum() < (judged & (size <= MODERATE)).sum()
    doubtful = wrong & ((size > MODERATE) | few)
    tried = np.flatnonzero(doubtful)[:TRIED]
    judged &= ~doubtful
    for row in map(int, tried):
        judged[row] = not clipped(probe, row, gradient[row], of, support)
    good &= ~plain | judged
    note = f"autograd's derivative of the {of} of {which} differs from its difference quotient"
    return difference.residual(along, allowed, good, note)


def without_gradient(flow: Flow) -> str:
    """The name of an output with a derivative by differences at entries of zero or one, but none
    by autograd; empty if there is none.
    """
    if differentiable.unmet(flow) is not None or not offers(flow, Pulling) or of_members(flow):
        return ""
    for value, where in ((0.0, "the origin"), (1.0, "ones")):
        for which, of in (("forward", "value"), ("forward", "log-det"), ("log_prob", "value")):
            shape = flow.density_shape if which == "log_prob" else flow.event_shape
            support = flow.density_support if which == "log_prob" else flow.domain
            point = np.full((1, *shape), value)
            if which not in flow.calls or not support.holds(point).all():
                continue
            context = None if flow.context_shape is None else np.zeros((1, *flow.context_shape))
            try:
                found, _ = attempt(gradient_residual, flow, Batch(point, context, 3), which, of)
            except (Unsupported, Undecidable):  # for example a constant log-det
                continue
            if found is None or not np.asarray(found.decidable).all():
                continue
            if (
                np.isfinite(found.observed["difference"]).all()
                > np.isfinite(found.observed["autograd"]).all()
            ):
                return f"the {of} of {which} at {where}"
    return ""


def of_members(flow: Flow) -> bool:
    """Whether an event is a set of interchangeable members: if all coincide, their distances have
    no derivative.
    """
    which = "forward" if "forward" in flow.calls else "log_prob"
    shape = flow.event_shape
    if len(shape) != 2 or shape[0] < 2 or flow.context_shape is not None or which not in flow.calls:
        return False
    x = draw_points(flow.domain, (2, *shape), np.random.default_rng(4))
    one, two = (attempt(flow.calls[which], points, None)[0] for points in (x, x[:, ::-1].copy()))
    if one is None or two is None:
        return False
    first, second = (np.asarray(getattr(out, "value", out), np.float64) for out in (one, two))
    moved = first[:, ::-1] if first.shape == x.shape else first
    return bool(np.allclose(moved, second, rtol=ALIKE, atol=ALIKE)) and not np.allclose(first, x)


def sized(points: Array, support: Support) -> Array:
    """The largest absolute entry of each point, ``(rows,)``; between two declared ends, as for
    pixel levels, at most the range that is judged.
    """
    size = np.abs(points).reshape(len(points), -1)
    low, high = (np.broadcast_to(end, size.shape[1:]) for end in support.ends)
    ends = np.maximum(np.abs(low), np.abs(high)) <= LEVELS
    inside = ends & support.holds(points)[:, None]
    return np.asarray(np.where(inside, np.minimum(size, FAR), size).max(1, initial=0.0))


def clipped(probe: Probe, row: int, gradient: Array, of: str, support: Support) -> bool:
    """Whether autograd has a derivative in one of its largest coordinates in which the output is
    constant.
    """
    slopes = np.abs(gradient.reshape(-1))
    entries = np.argsort(-slopes, kind="stable")[:ENTRIES]
    entries = entries[slopes[entries] > 0]
    if not len(entries):  # autograd gives no derivative at all
        return False
    point = probe.points[row].reshape(-1)
    moves = np.zeros((len(entries), len(point)))
    moves[np.arange(len(entries)), entries] = 1 + np.abs(point[entries])
    shape = (len(entries), *probe.points.shape[1:])
    here = np.repeat(point[None], len(entries), 0).reshape(shape)
    moves = STEPS_DOWN[-1] * direction_within_support(here, moves.reshape(shape), support)
    moved = (moves != 0).reshape(len(entries), -1).any(1)
    several = probe.rows(np.full(2 * len(entries), row)).at(
        np.concatenate([here + moves, here - moves])
    )
    out = several()
    seen = row_log_dets(out, len(several.points)) if of == "log-det" else np.asarray(out.value)
    ahead, behind = np.asarray(seen).reshape(2, len(entries), -1)
    return bool(((ahead == behind).all(1) & moved).any())


# A deterministic float64 call that is smooth enough for difference quotients.
smooth = in_double & true_gradients & forward_in_closed_form
# A random output may have a random gradient.
differentiable = smooth & calculated & not_estimator


@law(
    "gradient/input[value]",
    key="hygiene/value-gradient",
    picture=jacobian_gap,
    scales=GIVEN,
    effort=4,
    size=16,
    applies=smooth & exact_values,
    version=2,
    source="torch.autograd.gradcheck: a backward pass is the derivative of its forward pass",
    pointwise=True,
    cases=(TRAIN, TRAINED, CONTEXT),
)
def value_gradient(flow: BijectionPulling, batch: Batch) -> Residual:
    """Autograd's gradient of forward with respect to its input is finite and is its derivative."""
    return gradient_residual(flow, batch, "forward", "value")


@law(
    "gradient/input[log-det]",
    key="hygiene/log-det-gradient",
    about=VOLUME,
    picture=log_det_gradient_gap,
    scales=GIVEN,
    effort=4,
    size=16,
    applies=differentiable,
    version=2,
    source="likelihood training differentiates the log-det; a detached one trains another objective",
    pointwise=True,
    cases=(INVERSE, TRAIN, TRAINED),
)
def log_det_gradient(flow: BijectionPulling, batch: Batch) -> Residual:
    """Autograd's gradient of the log-det with respect to the input is finite and is its
    derivative.
    """
    return gradient_residual(flow, batch, "forward", "log-det")


@law(
    "gradient/input[log-prob]",
    key="hygiene/score",
    picture=score_gap,
    points="data",
    scales=GIVEN,
    effort=4,
    size=16,
    applies=differentiable,
    version=2,
    source="score matching and Langevin sampling follow the gradient of the log-density",
    cases=(TRAIN, TRAINED),
)
def score(flow: DensityPulling, batch: Batch) -> Residual:
    """Autograd's gradient of log_prob with respect to the point is finite and is its derivative."""
    return gradient_residual(flow, batch, "log_prob", "value")
