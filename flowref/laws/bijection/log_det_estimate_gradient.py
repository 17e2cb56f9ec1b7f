"""Gradients of estimated log-determinants: training follows the gradient of the estimate."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from flowref.laws.bijection.log_det import BijectionParametric
from flowref.laws.bijection.log_det_estimate import LARGE, SOURCE, drawn_in_training, estimator
from flowref.laws.common.amounts import planned
from flowref.laws.common.arithmetic import reported
from flowref.laws.common.cases import mode_matters
from flowref.laws.common.differences import EXPONENTS, FINE, derivative
from flowref.laws.common.outcomes import attempt
from flowref.laws.common.quotients import DOUBT
from flowref.laws.common.requirements import (
    exact_log_det,
    has_parameters,
    in_double,
    true_gradients,
)
from flowref.laws.common.statistics import Finding, Look, Mean, two_stage
from flowref.laws.conduct.state import moves_little
from flowref.model import (
    NEARBY,
    STATISTICAL,
    VOLUME,
    Array,
    Batch,
    Mapped,
    Residual,
    Undecidable,
    Unsupported,
    law,
)
from flowref.model.abilities import Living

# Number of directions, since a derivative may be small by chance in one; and the allowed error of
# backward passes with adaptive steps, relative to the largest derivative.
DIRECTIONS, SHARE = 3, 0.2
# Draws of the two stages if derivatives of one draw differ, the second ones fresh; and the step of
# differences.
STAGES, STEP = (64, 256), 2.0**-10
# Factor of finer steps that must agree: a kink between the points of one difference, unknown to
# autograd, counts for more, or not at all, over another.
FINER = 8.0
# Log-dets that change less decide nothing; nor do differences with a larger error.
STILL, SHARP = 1e-5, 1e-2


OTHER = "the log-det is trained as another function than it is"
DETACHED = "the log-det has no gradient, so that training leaves it out; the values have one"


class LivingParametric(BijectionParametric, Living, Protocol):
    """A map with trainable parameters that can be called repeatedly."""


class EstimateDerivative(NamedTuple):
    """The derivative of the estimates by autograd, by differences under the same draws, and by
    finer differences.
    """

    recorded: float
    difference: float
    finer: float


@law(
    "gradient/parameters[log-det-estimate]",
    key="bijection/log-det-estimate-gradient",
    version=4,
    about=VOLUME,
    tolerance=STATISTICAL,
    effort=2,
    size=16,
    scales=NEARBY,
    local=False,
    applies=estimator & in_double & true_gradients & has_parameters & moves_little,
    source=f"{SOURCE}: an estimate is meant to be trained; a detached one trains nothing",
)
def log_det_estimate_gradient(flow: BijectionParametric, batch: Batch) -> Residual:
    r"""Autograd's derivative of an estimated log-det with respect to the parameters is on average
    that of the estimate: $E[\partial_\theta V] = \partial_\theta E[V]$, within a fifth of it.

    One fixed draw decides if autograd differentiates the estimate as it is, or if it has no
    gradient while the values have one. If the backward pass has an estimate of its own, the means
    of two stages of draws decide, at five standard errors each.
    """
    return of_estimates(flow, batch)


@law(
    "gradient/parameters[log-det-estimate, train]",
    about=VOLUME,
    tolerance=STATISTICAL,
    mode="train",
    effort=1,
    size=16,
    scales=NEARBY,
    local=False,
    applies=exact_log_det
    & mode_matters
    & in_double
    & true_gradients
    & has_parameters
    & moves_little,
    source=f"{SOURCE}: an estimate is meant to be trained; a detached one trains nothing",
)
def train_log_det_estimate_gradient(flow: LivingParametric, batch: Batch) -> Residual:
    r"""Autograd's derivative of a log-det that is estimated in train mode only is on average that
    of the estimate there: $E[\partial_\theta V] = \partial_\theta E[V]$, within a fifth of it.
    """
    drawn_in_training(flow, batch)
    return of_estimates(flow, batch)


def of_estimates(flow: BijectionParametric, batch: Batch) -> Residual:
    """The deviation of autograd's derivatives of estimates from differences."""
    rows = len(batch.x)
    inputs = "forward", batch.x, batch.context
    base = reported(flow, flow.along(*inputs, batch.seed, 0.0), rows)
    usable = np.isfinite(base) & (np.abs(base) < LARGE)
    if not usable.any():
        raise Undecidable("no estimate is of ordinary size")
    pairs = [
        derivatives_in_fixed_state(flow, batch, batch.seed + k, usable) for k in range(DIRECTIONS)
    ]
    scale = max(max(abs(one.recorded), abs(one.difference)) for one in pairs)
    gaps = [abs(one.recorded - one.difference) for one in pairs]
    worst = int(np.argmax(gaps))
    excess = gaps[worst] / (SHARE * scale + STILL)
    detached = excess > 1 and not any(one.recorded for one in pairs)
    if excess > 1:
        same_in_training(flow, batch, usable, worst)
    if detached and not values_follow(flow, batch):
        raise Unsupported("no output of forward has a gradient: training does not use it")

    def biases(look: Look) -> Finding:
        draws = range(sum(STAGES[: look.index]), sum(STAGES[: look.index + 1]))
        each = [
            derivatives_in_drawn_state(flow, batch, batch.seed + worst, usable, k) for k in draws
        ]
        pair = EstimateDerivative(*(float(mean) for mean in np.mean(each, 0)))
        off = Mean.of(np.array([one.recorded - one.difference for one in each]), ddof=1)
        room = off.room(0.0) + SHARE * max(scale, *map(abs, pair[:2])) + STILL
        if abs(off.mean) > room and abs(pair.difference - pair.finer) > 0.5 * room:
            raise Undecidable("differences of its estimates do not converge")
        return finding(abs(off.mean) / room, pair, off.error)

    def finding(excess: float, pair: EstimateDerivative, error: float) -> Finding:
        observed = {
            "autograd": pair.recorded,
            "differences": pair.difference,
            "standard error": error,
        }
        return Finding(excess, observed, DETACHED if detached else OTHER)

    found = finding(excess, pairs[worst], 0.0)
    if excess > 1 and not detached:
        found = two_stage(biases, STAGES, batch.seed)
    return found.residual(rows, decidable=usable, trivial=np.full(rows, scale <= STILL))


def values_follow(flow: BijectionParametric, batch: Batch) -> bool:
    """Whether the values returned with the log-dets have a gradient for the parameters; in train
    mode if eval mode frees the graph.
    """
    inputs = "forward", batch.x, batch.context
    ones = np.ones_like(flow.along(*inputs, batch.seed, 0.0).value)
    seeds = range(batch.seed, batch.seed + DIRECTIONS)
    try:
        return any(flow.slope(*inputs, seed, None, ones) for seed in seeds)
    except Unsupported:
        return any(flow.slope(*inputs, seed, None, ones, training=True) for seed in seeds)


def derivatives_in_fixed_state(
    flow: BijectionParametric, batch: Batch, seed: int, usable: Array
) -> EstimateDerivative:
    """Both derivatives under one fixed random state. Raises `Undecidable` if differences are not
    accurate.
    """
    inputs = "forward", batch.x, batch.context
    weights = usable.astype(np.float64)
    slope, refused = attempt(flow.slope, *inputs, seed, weights)
    if refused:
        raise Unsupported(f"it cannot be differentiated here ({refused})", blocked=False)
    slope = log_det_sign(flow) * slope

    def total_at(t: float) -> float:
        return _sum_of_estimates(flow, batch, flow.along(*inputs, seed, t), usable)

    exponents = planned(flow, EXPONENTS, FINE)
    estimate, error = derivative(total_at, slope, DOUBT, exponents)
    if not error <= SHARP * (abs(slope) + abs(estimate)) + STILL:
        raise Undecidable("differences of its estimates do not converge")
    return EstimateDerivative(slope, estimate, estimate)


def derivatives_in_drawn_state(
    flow: BijectionParametric, batch: Batch, seed: int, usable: Array, draws: int
) -> EstimateDerivative:
    """Both derivatives as means over ``draws`` random states."""
    inputs = "forward", batch.x, batch.context
    slope = flow.slope(*inputs, seed, usable.astype(np.float64), draws=draws)

    def across(step: float) -> float:
        ahead, behind = (
            _sum_of_estimates(flow, batch, flow.along(*inputs, seed, t, draws=draws), usable)
            for t in (step, -step)
        )
        return (ahead - behind) / (2 * step)

    return EstimateDerivative(log_det_sign(flow) * slope, across(STEP), across(STEP / FINER))


def same_in_training(flow: BijectionParametric, batch: Batch, usable: Array, which: int) -> None:
    """Raise `Unsupported` if train mode records another gradient: eval mode may have no graph on
    purpose.
    """
    inputs = "forward", batch.x, batch.context, batch.seed + which, usable.astype(np.float64)
    here, there = (flow.slope(*inputs, draws=0, training=mode) for mode in (False, True))
    if not np.isclose(here, there, rtol=1e-6, atol=1e-9):
        raise Unsupported(
            "in eval mode it records another gradient of its log-det than in training"
        )


def _sum_of_estimates(flow: BijectionParametric, batch: Batch, out: Mapped, usable: Array) -> float:
    return float(np.where(usable, reported(flow, out, len(batch.x)), 0.0).sum())


def log_det_sign(flow: BijectionParametric) -> float:
    """-1 if log-dets are declared to be those of the opposite map."""
    return -1.0 if flow.promises.get("ladj") == "inverse" else 1.0
