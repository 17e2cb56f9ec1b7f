"""Laws of gradients: against difference quotients, finite, and reaching every parameter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from flowref.laws.common.outcomes import attempt, data, finite, flags, listed, log_det, tolerance_of
from flowref.laws.common.requirements import (
    forward_in_closed_form,
    has_parameters,
    in_double,
    not_estimator,
    true_gradients,
)
from flowref.model import (
    ADVICE,
    CONTRACT,
    EXACT,
    Array,
    Batch,
    Residual,
    Support,
    Unsupported,
    draw,
    law,
)
from flowref.model.abilities import Bijection, Density, Living, Pulling
from flowref.model.steps import Eval, Learn, Nudge, Step, Train


class BijectionPulling(Bijection, Pulling, Protocol):
    """BijectionPulling."""


class DensityPulling(Density, Pulling, Protocol):
    """DensityPulling."""


# Steps of the difference quotients, relative to 1 + |x| coordinate by coordinate.
STEPS_DOWN = (2.0**-10, 2.0**-12, 2.0**-14, 2.0**-16)
# A difference quotient accuses only above this many times its own error estimate.
DOUBT = 20.0
# Finite gradients are compared with difference quotients at points up to here, or at any levels of
# pixels.
MODERATE = 3.0
# Perturbations and steps after which a parameter without any gradient is called dead.
SEEDS, STEPS = 4, 3


def directions(shape: tuple[int, ...], seed: int) -> Array:
    """A direction of unit length per point."""
    direction = np.random.default_rng(seed).standard_normal(shape)
    flat = direction.reshape(len(direction), -1)
    length = np.linalg.norm(flat, axis=1, keepdims=True) if flat.shape[1] else 1.0
    return np.asarray((flat / length).reshape(shape))


def within(x: Array, direction: Array, support: Support | None) -> Array:
    """A direction, cut down in the coordinates in which the largest step would come near an end of
    a bounded set.
    """
    if support is None or not support.bounded or support.kind in ("ordered", "simplex"):
        return direction
    room = np.maximum(np.minimum(x - support.low, support.high - x), 0.0) / (4 * STEPS_DOWN[0])
    return np.clip(direction, -room, room)


def quotient(
    measure: Any, x: Array, direction: Array, support: Support | None
) -> tuple[Array, Array, Array]:
    r"""Central differences at several step sizes: the derivative, its error estimate, and where it
    can be trusted.

    $D = (4 D_{h/2} - D_h)/3$ has error $O(h^4)$; of the estimates at successive steps the two that
    agree best are taken, and their distance is the error. Where the two one-sided quotients do not
    approach each other as steps shrink, the point is on a kink or beside one, and there is no
    derivative to compare with.
    """
    rows = len(x)
    inside = np.ones(rows, dtype=bool)
    if support is not None:
        inside = support.holds(x + STEPS_DOWN[0] * direction) & support.holds(
            x - STEPS_DOWN[0] * direction
        )
    # Points that would leave the set stay where they are: a call refuses a whole batch for one of
    # them.
    direction = np.where(inside.reshape(-1, *[1] * (x.ndim - 1)), direction, 0.0)
    here = measure(x)
    slopes, jumps = [], []
    for step in STEPS_DOWN:
        ahead, behind = measure(x + step * direction), measure(x - step * direction)
        near_ahead, near_behind = (
            measure(x + step / 2 * direction),
            measure(x - step / 2 * direction),
        )
        wide, narrow = (ahead - behind) / (2 * step), (near_ahead - near_behind) / step
        slopes.append((4 * narrow - wide) / 3)
        jumps.append(np.abs((ahead - here) / step - (here - behind) / step))
    stacked = np.stack(slopes)
    gaps = np.abs(np.diff(stacked, axis=0))
    best = np.where(np.isfinite(gaps), gaps, np.inf).argmin(0)
    every = np.arange(rows)
    slope, error = stacked[best + 1, every], gaps[best, every]
    smooth = jumps[-1] <= 0.25 * jumps[0] + 1e-6 * (1 + np.abs(slope))
    return slope, error, inside & smooth


def gradient_residual(flow: Pulling, batch: Batch, which: str, points: Array, of: str) -> Residual:
    """Autograd's derivative along a direction less the difference quotient, of the value or of the
    log-det.
    """
    rows = len(points)
    out = flow.calls[which].under(points, batch.context)
    weights = directions(np.shape(out.value), batch.seed + 1) if of == "value" else np.ones(rows)
    if of == "log-det" and (out.ladj is None or np.ndim(out.ladj) == 0):
        raise Unsupported("its log-det is a constant")

    def measure(at: Array) -> Array:
        result = flow.calls[which].under(at, batch.context)
        if of == "log-det":
            return log_det(result, rows)
        return np.asarray(
            (np.asarray(result.value, dtype=np.float64) * weights).reshape(rows, -1).sum(1)
        )

    support = flow.density_support if which == "log_prob" else flow.domain
    direction = within(points, directions(points.shape, batch.seed) * (1 + np.abs(points)), support)
    with np.errstate(all="ignore"):
        slope, error, inside = quotient(measure, points, direction, support)
    given = (weights, None) if of == "value" else (None, weights)
    try:
        gradient, refused = attempt(flow.vjp, which, points, batch.context, *given)
    except Unsupported:
        if of != "log-det":
            raise
        # No graph of the log-det: it is constant, or detached. Where the value has none either,
        # gradients are not offered.
        refused = attempt(
            flow.vjp, which, points, batch.context, np.ones(np.shape(out.value)), None
        )[1]
        if not (slope != 0).any():
            raise
        gradient = np.zeros(points.shape)
    if refused:
        raise Unsupported(f"it cannot be differentiated here ({refused})")
    gradient = np.asarray(gradient, dtype=np.float64)
    with np.errstate(all="ignore"):
        along = (gradient * direction).reshape(rows, -1).sum(1)
        # An iterative inverse is as rough as its tolerance.
        rough = tolerance_of(flow, which) * (1 + np.abs(slope)) / STEPS_DOWN[-1]
        total = np.abs(np.asarray(out.value, dtype=np.float64)).reshape(rows, -1).sum(1)
        rounding = 2.0**-47 * (1 + total + np.abs(measure(points))) / STEPS_DOWN[-1]
        allowed = DOUBT * (error + rounding) + rough + 1e-7 * np.abs(slope)
    good = (
        inside
        & finite(out, rows)
        & np.isfinite(slope)
        & np.isfinite(allowed)
        & (error < 1e-4 * (1 + np.abs(slope)))
    )
    # Clamps that pass gradients on where they clip are a known device for training. They act on
    # large inputs and moved weights, and on few points; a detached or wrong backward pass shows
    # everywhere.
    plain = np.isfinite(along)
    moderate = np.abs(points).reshape(rows, -1).max(1) <= MODERATE
    if flow.facts.preprocessing is not None:
        moderate[:] = True  # levels of pixels are no large numbers, but the data themselves
    wrong = good & plain & moderate & (np.abs(along - slope) > allowed)
    judged = good & plain & moderate
    if rows > 2 and 2 * wrong.sum() < judged.sum():
        judged &= ~wrong
    good &= ~plain | judged
    note = f"autograd's derivative of the {of} of {which} differs from its difference quotient"
    return Residual(
        np.where(good, along - slope, 0.0),
        1 + np.abs(slope),
        allowed=np.where(good, allowed, 0.0),
        decidable=good,
        observed={"autograd": along, "difference": slope},
        note=note,
    )


# A deterministic float64 call, smooth enough for difference quotients.
differentiable = in_double & true_gradients & forward_in_closed_form & not_estimator


@law(
    "conduct/value-gradient",
    former="hygiene/value-gradient",
    scales=(0.0,),
    effort=4,
    size=16,
    applies=differentiable,
    source="torch.autograd.gradcheck: a backward pass is the derivative of its forward pass",
)
def value_gradient(flow: BijectionPulling, batch: Batch) -> Residual:
    """Autograd's gradient of forward with respect to its input is finite, and is its derivative."""
    return gradient_residual(flow, batch, "forward", batch.x, "value")


@law(
    "conduct/log-det-gradient",
    former="hygiene/log-det-gradient",
    scales=(0.0,),
    effort=4,
    size=16,
    applies=differentiable,
    source="likelihood training differentiates the log-det; a detached one trains another objective",
)
def log_det_gradient(flow: BijectionPulling, batch: Batch) -> Residual:
    """Autograd's gradient of the log-det with respect to the input is finite, and is its
    derivative.
    """
    return gradient_residual(flow, batch, "forward", batch.x, "log-det")


@law(
    "conduct/score",
    former="hygiene/score",
    given="data",
    scales=(0.0,),
    effort=4,
    size=16,
    applies=differentiable,
    source="score matching and Langevin sampling follow the gradient of the log-density",
)
def score(flow: DensityPulling, batch: Batch) -> Residual:
    """Autograd's gradient of log_prob with respect to the point is finite, and is its derivative."""
    return gradient_residual(flow, batch, "log_prob", batch.x, "value")


@law(
    "conduct/gradients-finite",
    former="hygiene/gradients-finite",
    tolerance=EXACT,
    effort=4,
    scales=(0.0, 0.1, 0.3),
    applies=has_parameters,
    source="a nan in the branch that torch.where does not choose is still a nan in the gradient (flowjax issue 239)",
)
def gradients_finite(flow: Living, batch: Batch) -> Residual:
    """At ordinary points, where the loss is finite, its gradient is finite for every parameter."""
    # Points without special values: where a map has a kink, a gradient may not exist.
    points = draw(flow.domain, batch.x.shape, np.random.default_rng(batch.seed))
    ordinary = Batch(points, batch.context, batch.seed)
    outcomes, error = attempt(flow.play, [Learn(data(flow, ordinary), batch.context)])
    if error.startswith(("ValueError", "NotImplementedError")):
        raise Unsupported(f"it refuses to be trained in eval mode ({error})")
    if error:
        raise RuntimeError(error)
    (outcome,) = outcomes
    broken = [] if not np.isfinite(outcome.loss) else _broken(outcome.gradients)
    note = f"the loss is {outcome.loss:.4g}, and the gradient of {listed(broken)} is not finite"
    decidable = np.full(len(batch.x), bool(np.isfinite(outcome.loss)))
    return flags(bool(broken), len(batch.x), note, decidable=decidable)


def _broken(gradients: Mapping[str, Array | None]) -> list[str]:
    return [
        name
        for name, gradient in gradients.items()
        if gradient is not None and not np.isfinite(gradient).all()
    ]


# Advice, because healthy tensors without any gradient exist: weights that a mask empties when there
# is one feature, the only logit of a softmax, the parameters of a base that the loss does not
# reach, a context net without context.
@law(
    "conduct/no-dead-parameters",
    former="hygiene/no-dead-parameters",
    force=ADVICE,
    tolerance=EXACT,
    effort=1,
    scales=(0.0,),
    applies=has_parameters,
    source="zero-initialized factors that wait for each other never learn (a dead coupling)",
)
def no_dead_parameters(flow: Living, batch: Batch) -> Residual:
    """Every parameter tensor gets a gradient that is not zero, within a few steps and for some
    values of the others.
    """
    play = flow.play
    points = data(flow, batch)
    step = Learn(points, batch.context)
    alive: set[str] = set()
    names: set[str] = set()
    # As built: zero-initialized outputs hide what is behind them for one step, and dead pairs of
    # zeros for ever. In either mode: some parameters matter in one of them only.
    modes: list[list[Step[Any]]] = [[Train()], [Eval()]] if flow.stateful else [[]]
    for mode in modes:
        played, error = attempt(play, [*mode, *([step] * STEPS)])
        for outcome in played[len(mode) :] if not error else []:
            names |= set(outcome.gradients)
            alive |= {
                name for name, g in outcome.gradients.items() if g is not None and np.any(g != 0)
            }
    unmoved = names - alive
    if unmoved and not flow.promises.get("fixed"):
        # A tensor that stays at zero gradient only for the weights as given (units that happen to
        # be off) is spared.
        for seed in range(SEEDS):
            played, error = attempt(play, [Nudge(batch.seed + seed, 0.5), *([step] * STEPS)])
            for outcome in played[1:] if not error else []:
                alive |= {
                    name
                    for name, g in outcome.gradients.items()
                    if g is not None and np.any(g != 0)
                }
    dead = sorted(names - alive)
    return flags(bool(dead), len(batch.x), f"{listed(dead)} never received a gradient")


@law(
    "conduct/all-parameters-used",
    former="hygiene/all-parameters-used",
    force=CONTRACT,
    promise="ddp",
    tolerance=EXACT,
    effort=1,
    applies=has_parameters,
    source="torch.nn.parallel.DistributedDataParallel waits for the gradient of every parameter",
)
def all_parameters_used(flow: Living, batch: Batch) -> Residual:
    """Every parameter takes part in every training step."""
    (outcome,) = flow.play([Learn(data(flow, batch), batch.context)])
    unused = [name for name, gradient in outcome.gradients.items() if gradient is None]
    return flags(bool(unused), len(batch.x), f"{listed(unused)} took no part")
