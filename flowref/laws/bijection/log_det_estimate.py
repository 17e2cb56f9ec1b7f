"""Log-determinants that are estimated, there and back: they may be noisy, and somewhat off, but not those of
another map; where they are promised to be without bias, their mean is the log-determinant.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from flowref.laws.bijection.log_det import brought_back
from flowref.laws.common.amounts import planned
from flowref.laws.common.arithmetic import (
    finite_rows,
    invertible_images,
    log_abs_det,
    reported,
    resolvable,
)
from flowref.laws.common.outcomes import attempt
from flowref.laws.common.requirements import exact_log_det, has_modules
from flowref.laws.common.statistics import ERRORS, Finding, Look, two_stage
from flowref.laws.common.structure import WHOLE
from flowref.model import (
    BOUND,
    CONTRACT,
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
    requires,
)
from flowref.model.abilities import Differentiable, Flow, Invertible, Living
from flowref.model.steps import Eval, Run, Train

# Estimates that are averaged, and that are where these tell nearly enough; how many standard errors their
# mean may be off, and what share of the log-det a truncated series may lose. Four times as many halve the
# standard error.
ESTIMATES, MORE, WIDE, LOST = 48, 4 * 48, 8.0, 0.5
# So many calls tell whether an estimate is random at all; a truncated series is not.
FEW = 4
# Log-dets that are smaller tell no sign; nor do those of which the factor is known no better.
SMALL, UNCLEAR = 1e-3, 0.15
# Nor do those of points at which a formula overflows.
LARGE = 1e3
# Unbiased estimates of the two stages, the second of which are fresh; and which share of the log-det their
# mean may be off, whatever the standard error.
STAGES, SHARE = (100, 400), 0.01
# How often a point stands in a batch: noise of rows is averaged in each call, and what a call draws once
# for all of them, as a number of terms, by calls; more often where a round trip takes few operations.
REPEATS, OFTEN, CHEAP = 32, 128, 2000
# What is left out of an integral, as a share of it; and how near values are that are the same.
INTEGRATED, STILL = 0.1, 1e-6
Mode = Eval | Train
EVAL = Eval()
# How far a Jacobian may be from the identity.
CONTRACTS = 0.99
SOURCE = "Grathwohl et al., FFJORD (arXiv:1810.01367), section 3.1; Chen et al., Residual Flows (arXiv:1906.02735)"


class LivingDifferentiable(Differentiable, Living, Protocol):
    """A map that is called more than once, and whose Jacobian the framework gives."""


class LivingDifferentiableInvertible(LivingDifferentiable, Invertible, Protocol):
    """The same, and the way back."""


@requires("its log-det is promised to be exact, or to be a constant")
def estimator(flow: Flow) -> bool:
    """Its log-det is promised to be an estimate, point by point."""
    others = ("batch-statistics", "set", "scalar-ladj")
    return flow.certainty.estimate and not any(map(flow.promises.get, others))


@law(
    "map/log-det[estimate]",
    key="bijection/log-det-estimate",
    about=VOLUME,
    tolerance=BOUND,
    effort=2,
    size=16,
    scales=NEARBY,
    local=False,
    applies=estimator,
    version=2,
    source=SOURCE,
)
def log_det_estimate(flow: LivingDifferentiable, batch: Batch) -> Residual:
    r"""An estimated log-det has the sign and the size of $\log|\det \partial f / \partial x|$: over
    four dozen estimates, or four times as many where these nearly tell, it is on average between half of it
    and half as much again.

    Eight standard errors are allowed beyond that.
    """
    _, truth, usable = true_log_dets(flow, batch)
    return factors(flow, "forward", batch, truth, usable)


@law(
    "map/log-det[inverse, estimate]",
    key="bijection/inverse-log-det-estimate",
    about=VOLUME,
    tolerance=BOUND,
    effort=2,
    size=16,
    scales=NEARBY,
    local=False,
    applies=estimator,
    source=SOURCE,
)
def inverse_log_det_estimate(flow: LivingDifferentiableInvertible, batch: Batch) -> Residual:
    r"""An estimated log-det that the inverse returns has the sign and the size of
    $\log|\det \partial f^{-1} / \partial z|$, at $z = f(x)$: over four dozen estimates, or four times as
    many where these nearly tell, it is on average between half of $-\log|\det \partial f / \partial x|$ and
    half as much again.

    Eight standard errors are allowed beyond that.
    """
    images, _, truth, usable = round_trip_log_dets(flow, batch)
    return factors(flow, "inverse", images, truth, usable)


@law(
    "map/log-det[estimate, train]",
    about=VOLUME,
    tolerance=BOUND,
    effort=1,
    size=16,
    scales=NEARBY,
    local=False,
    applies=has_modules & exact_log_det,
    source=SOURCE,
)
def train_log_det_estimate(flow: LivingDifferentiable, batch: Batch) -> Residual:
    r"""A log-det that is estimated in train mode alone has the sign and the size of
    $\log|\det \partial f / \partial x|$: over four dozen estimates, or four times as many where these nearly
    tell, it is on average between half of it and half as much again; of an integral, which no series cuts
    off, within a tenth.

    Eight standard errors are allowed beyond that.
    """
    drawn_in_training(flow, batch)
    _, truth, usable = true_log_dets(flow, batch)
    lost = INTEGRATED if flow.certainty.log_det else LOST
    return factors(flow, "forward", batch, truth, usable, Train(), lost)


def drawn_in_training(flow: Living, batch: Batch) -> None:
    """Raise `Unsupported` where train mode draws no log-dets, or other values than eval mode has."""
    whole = Batch(batch.x, batch.context, batch.seed)
    evaluated = np.asarray(flow.calls["forward"](batch.x, batch.context).value)
    outs, refused = attempt(repeated_calls, flow, whole, FEW, "forward", Train())
    ladjs = [np.asarray(out.ladj) for out in outs if out.ladj is not None]
    if refused or len(ladjs) < len(outs):
        raise Unsupported("in train mode it is refused, or returns no log-det", waits=False)
    if not all(np.allclose(evaluated, out.value, STILL, STILL, True) for out in outs):
        raise Unsupported("training changes the map itself", waits=False)
    if all(np.allclose(ladjs[0], other, STILL, STILL, True) for other in ladjs[1:]):
        raise Unsupported("in train mode its log-det is not drawn", waits=False)


@law(
    "map/log-det-unbiased",
    key="bijection/log-det-unbiased",
    about=VOLUME,
    force=CONTRACT,
    promise="unbiased-log-det",
    tolerance=STATISTICAL,
    effort=2,
    size=7,
    scales=NEARBY,
    local=False,
    applies=estimator,
    source=SOURCE,
)
def log_det_unbiased(flow: LivingDifferentiable, batch: Batch) -> Residual:
    r"""The mean of log-dets that are promised to be estimated without bias is
    $\log|\det \partial f / \partial x|$, at each point: within five standard errors of four hundred
    calls on batches that hold it many times.
    """
    matrices, truth, usable = true_log_dets(flow, batch)
    return means(flow, "forward", batch, truth, usable & of_a_series(flow, matrices))


@law(
    "map/log-det-unbiased[inverse]",
    key="bijection/inverse-log-det-unbiased",
    about=VOLUME,
    force=CONTRACT,
    promise="unbiased-log-det",
    tolerance=STATISTICAL,
    effort=2,
    size=7,
    scales=NEARBY,
    local=False,
    applies=estimator,
    source=SOURCE,
)
def inverse_log_det_unbiased(flow: LivingDifferentiableInvertible, batch: Batch) -> Residual:
    r"""The mean of log-dets that are promised to be estimated without bias is that of the inverse map in
    what inverse returns, $-\log|\det \partial f / \partial x|$ at $z = f(x)$: within five standard errors
    of four hundred calls on batches that hold each point many times.
    """
    images, matrices, truth, usable = round_trip_log_dets(flow, batch)
    return means(flow, "inverse", images, truth, usable & of_a_series(flow, matrices))


def true_log_dets(flow: Differentiable, batch: Batch) -> tuple[Array, Array, Array]:
    """Forward's Jacobians at points, their log-dets, and where these are known. Raises `Unsupported` where events
    are too large for a Jacobian.
    """
    refuse_large(batch)
    matrices = flow.jacobian("forward", batch.x, batch.context)
    truth = log_abs_det(matrices)
    return matrices, truth, finite_rows(truth) & resolvable(matrices, truth)


def round_trip_log_dets(
    flow: LivingDifferentiableInvertible, batch: Batch
) -> tuple[Batch, Array, Array, Array]:
    """Images, forward's Jacobians at their points, the log-dets of the inverse there, and where these
    are known: where the inverse came back. What it does elsewhere is the affair of the round trip.
    """
    matrices, truth, known = true_log_dets(flow, batch)
    z, usable = invertible_images(flow, flow.forward(batch.x, batch.context).value)
    back = np.asarray(flow.inverse(z, batch.context).value)
    usable = usable & known & brought_back(back, batch.x)
    return Batch(z, batch.context, batch.seed), matrices, -truth, usable


def factors(
    flow: Living,
    which: str,
    batch: Batch,
    truth: Array,
    usable: Array,
    mode: Mode = EVAL,
    lost: float = LOST,
) -> Residual:
    """By which factor the estimates of a call are those of true log-dets, where these are known. ``lost``: which
    share of them they may lose.
    """
    outs = repeated_calls(flow, batch, FEW, which, mode)
    if any((np.asarray(out.ladj) != np.asarray(outs[0].ladj)).any() for out in outs[1:]):
        outs = repeated_calls(flow, batch, ESTIMATES, which, mode)
    first = np.asarray(outs[0].value)
    if not all(np.allclose(first, out.value, rtol=1e-3, atol=1e-3) for out in outs[1:]):
        raise Undecidable("its values are random, too")
    estimates = np.stack([reported(flow, out, len(batch.x)) for out in outs])
    usable = usable & finite_rows(first) & (np.abs(truth) < LARGE)
    factor, error = factor_of(estimates[:, usable], truth[usable])
    if UNCLEAR <= error < 2 * UNCLEAR or lost < abs(factor - 1) < lost + WIDE * error:
        outs = repeated_calls(
            flow, batch, MORE, which, mode
        )  # the first of which are those that there were
        estimates = np.stack([reported(flow, out, len(batch.x)) for out in outs])
        factor, error = factor_of(estimates[:, usable], truth[usable])
    if usable.any() and not np.sqrt((truth[usable] ** 2).mean()) > SMALL:
        raise Undecidable(f"log-dets within {SMALL:g} of zero decide neither sign nor size")
    if usable.any() and not error < UNCLEAR:
        raise Undecidable(
            f"{len(outs)} estimates scatter too much: their mean is known to a factor of {error:.2g} of the "
            f"log-dets, and {UNCLEAR:g} would decide"
        )
    rows = np.ones(len(truth))
    return Residual(
        rows * abs(factor - 1) / (lost + WIDE * error),
        allowed=1.0,
        decidable=usable,
        nats=estimates.mean(0) - truth,
        observed={
            "mean of the estimates": estimates.mean(0),
            "autograd": truth,
            "estimates over log-dets": rows * factor,
            "standard error": rows * error,
        },
        note=""
        if abs(factor - 1) <= lost
        else f"the estimates are {factor:.3g} times the log-dets",
    )


def refuse_large(batch: Batch) -> None:
    """Raise `Unsupported` where events are too large for a Jacobian."""
    if batch.x[0].size > WHOLE:
        raise Unsupported(
            f"its events have {batch.x[0].size} entries, too many for a Jacobian", waits=True
        )


def repeated_calls(
    flow: Living, batch: Batch, count: int, which: str = "forward", mode: Mode = EVAL
) -> list[Mapped]:
    """So many calls of one object, each with random numbers of its own; fewer calls are the first of more."""
    run = Run(which, batch.x, batch.context)
    before = [mode] if flow.stateful else []
    return list(flow.play([*before, *[run] * count])[len(before) :])


def factor_of(estimates: Array, truth: Array) -> tuple[float, float]:
    """By which factor estimates are on average larger than the truth, over all points, and the
    standard error of that; estimates of one draw may err together.
    """
    with np.errstate(all="ignore"):
        factors = estimates @ truth / (truth @ truth)
    return float(factors.mean()), float(factors.std(ddof=1) / np.sqrt(len(factors)))


def of_a_series(flow: Flow, matrices: Array) -> Array:
    """Where a series of a Jacobian converges: that of a matrix that is none of a contraction diverges,
    whatever draws its length. An integral is no series.
    """
    if flow.certainty.log_det:
        return np.ones(len(matrices), dtype=bool)
    rest = matrices - np.eye(matrices.shape[1], matrices.shape[2])
    return np.asarray(np.linalg.norm(rest, 2, axis=(1, 2)) < CONTRACTS)


def means(flow: Living, which: str, batch: Batch, truth: Array, usable: Array) -> Residual:
    """How far means of estimates are from true log-dets, where these are known."""
    usable = usable & (np.abs(truth) < LARGE)
    times = planned(flow, OFTEN, REPEATS, CHEAP)

    def biases(look: Look) -> Finding:
        estimates = fresh_estimates(
            flow, batch, times, look.count, sum(STAGES[: look.index]), which
        )
        if not np.isfinite(estimates).all():
            raise Undecidable("an estimate is not finite")
        error = standard_errors(estimates)
        return Finding(
            excess_over(estimates, truth, usable),
            {
                "mean of the estimates": estimates.mean(0),
                "autograd": truth,
                "standard error": error,
            },
            road=f"a bias of {float(np.max(ERRORS * error)):.2g} would have been seen",
        )

    found = two_stage(biases, STAGES, batch.seed)
    nats = found.observed["mean of the estimates"] - truth
    return found.residual(decidable=usable, nats=nats)


def fresh_estimates(
    flow: Living,
    batch: Batch,
    times: int,
    count: int,
    before: int = 0,
    which: str = "forward",
    mode: Mode = EVAL,
) -> Array:
    """Estimates of so many calls on a batch that holds each point so often, of which the mean is taken,
    ``(count, rows)``. One life draws the same numbers again: those of calls ``before`` are left out.
    """
    context = None if batch.context is None else np.repeat(batch.context, times, 0)
    repeated = Batch(np.repeat(batch.x, times, 0), context, batch.seed)
    outs = repeated_calls(flow, repeated, before + count, which, mode)[before:]
    each = np.stack([reported(flow, out, len(repeated.x)) for out in outs])
    return np.asarray(each.reshape(count, len(batch.x), times).mean(2))


def standard_errors(estimates: Array) -> Array:
    """Those of the means of ``(calls, points)``."""
    return np.asarray(estimates.std(0, ddof=1) / np.sqrt(len(estimates)))


def excess_over(estimates: Array, goal: Array, usable: Array, slack: Array | float = 0.0) -> Array:
    """How far means are from a goal beside what is allowed, point by point, and over all, since what is off by
    as much everywhere is seen there; ``slack``: what is allowed besides.
    """
    share = SHARE * np.abs(goal)
    allowed = np.maximum(ERRORS * standard_errors(estimates), share + 1e-9) + slack
    excess = np.where(usable, np.abs(estimates.mean(0) - goal) / allowed, 0.0)
    if not usable.any() or (slack > share)[usable].any():
        return excess
    each = (estimates - goal)[:, usable].mean(1)
    room = max(ERRORS * float(standard_errors(each)), float(share[usable].mean()) + 1e-9)
    return np.where(usable, np.maximum(excess, abs(each.mean()) / room), 0.0)
