"""Estimated log-determinants in both directions: noisy, with a limited truncation error; if
promised to be unbiased, correct in the mean.
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

# Estimates that are averaged; four times as many if these nearly decide, which halves the standard
# error; allowed standard errors of the mean; and the share of the log-det that a truncated series
# may lose.
ESTIMATES, MORE, WIDE, LOST = 48, 4 * 48, 8.0, 0.5
# Calls that decide whether an estimate is random at all; a truncated series is not.
FEW = 4
# Smaller log-dets decide no sign; nor does a factor with a larger standard error.
SMALL, UNCLEAR = 1e-3, 0.15
# Points with larger log-dets, at which a formula overflows, are left out.
LARGE = 1e3
# Unbiased estimates of the two stages, the second with fresh draws; and the share of the log-det
# that their mean may be off by, whatever the standard error.
STAGES, SHARE = (100, 400), 0.01
# Copies of each point in a batch: row noise is averaged within a call; what a call draws once for
# all rows, as a number of terms, over calls. More copies if a round trip takes few operations.
REPEATS, OFTEN, CHEAP = 32, 128, 2000
# The share of an integral that may be missing; the relative error up to which values count as
# equal.
INTEGRATED, STILL = 0.1, 1e-6
Mode = Eval | Train
EVAL = Eval()
# The largest distance of a Jacobian from the identity for which its series converges.
CONTRACTS = 0.99
SOURCE = "Grathwohl et al., FFJORD (arXiv:1810.01367), section 3.1; Chen et al., Residual Flows (arXiv:1906.02735)"


class LivingDifferentiable(Differentiable, Living, Protocol):
    """A map with Jacobians by autograd that can be called repeatedly."""


class LivingDifferentiableInvertible(LivingDifferentiable, Invertible, Protocol):
    """The same with an inverse."""


@requires("its log-det is promised to be exact, or to be a constant")
def estimator(flow: Flow) -> bool:
    """The log-det is promised to be an estimate, point by point."""
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
    r"""An estimated log-det has the sign and the size of $\log|\det \partial f / \partial x|$: the
    mean of 48 estimates, or of 192 if these nearly decide, lies between 0.5 and 1.5 times that
    value.

    Eight standard errors are allowed in addition.
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
    r"""An estimated log-det returned by the inverse has the sign and the size of $\log|\det
    \partial f^{-1} / \partial z|$ at $z = f(x)$: the mean of 48 estimates, or of 192 if these
    nearly decide, lies between 0.5 and 1.5 times $-\log|\det \partial f / \partial x|$.

    Eight standard errors are allowed in addition.
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
    r"""A log-det that is estimated in train mode only has the sign and the size of $\log|\det
    \partial f / \partial x|$: the mean of 48 estimates, or of 192 if these nearly decide, lies
    between 0.5 and 1.5 times that value; for an integral, which has no truncated series, within a
    tenth.

    Eight standard errors are allowed in addition.
    """
    drawn_in_training(flow, batch)
    _, truth, usable = true_log_dets(flow, batch)
    lost = INTEGRATED if flow.certainty.log_det else LOST
    return factors(flow, "forward", batch, truth, usable, Train(), lost)


def drawn_in_training(flow: Living, batch: Batch) -> None:
    """Raise `Unsupported` if log-dets are not random in train mode, or values differ from eval
    mode.
    """
    whole = Batch(batch.x, batch.context, batch.seed)
    evaluated = np.asarray(flow.calls["forward"](batch.x, batch.context).value)
    outs, refused = attempt(repeated_calls, flow, whole, FEW, "forward", Train())
    ladjs = [np.asarray(out.ladj) for out in outs if out.ladj is not None]
    if refused or len(ladjs) < len(outs):
        raise Unsupported("in train mode it raises, or returns no log-det", blocked=False)
    if not all(np.allclose(evaluated, out.value, STILL, STILL, True) for out in outs):
        raise Unsupported("training changes the map itself", blocked=False)
    if all(np.allclose(ladjs[0], other, STILL, STILL, True) for other in ladjs[1:]):
        raise Unsupported("in train mode its log-det is not drawn", blocked=False)


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
    r"""The mean of log-dets that are promised to be unbiased estimates is $\log|\det \partial f /
    \partial x|$ at each point, within five standard errors of four hundred calls on batches with
    many copies of it.
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
    r"""The mean of log-dets of the inverse that are promised to be unbiased estimates is
    $-\log|\det \partial f / \partial x|$ at $z = f(x)$, within five standard errors of four
    hundred calls on batches with many copies of each point.
    """
    images, matrices, truth, usable = round_trip_log_dets(flow, batch)
    return means(flow, "inverse", images, truth, usable & of_a_series(flow, matrices))


def true_log_dets(flow: Differentiable, batch: Batch) -> tuple[Array, Array, Array]:
    """Forward's Jacobians ``(n, d, d)``, their log-dets ``(n,)``, and where these are known
    ``(n,)``. Raises `Unsupported` if events are too large.
    """
    refuse_large(batch)
    matrices = flow.jacobian("forward", batch.x, batch.context)
    truth = log_abs_det(matrices)
    return matrices, truth, finite_rows(truth) & resolvable(matrices, truth)


def round_trip_log_dets(
    flow: LivingDifferentiableInvertible, batch: Batch
) -> tuple[Batch, Array, Array, Array]:
    """The batch of images, forward's Jacobians ``(n, d, d)`` at their points, the log-dets of the
    inverse there ``(n,)``, and where these are known ``(n,)``: the rows that the inverse recovers.
    Other rows are reported by the round trip.
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
    """The ratio of the mean estimates of a call to the true log-dets, where these are known.
    ``lost``: the share that estimates may lose. Raises `Undecidable` if values are random,
    or the mean is too uncertain.
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
        # The first of these are the calls above.
        outs = repeated_calls(flow, batch, MORE, which, mode)
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
    """Raise `Unsupported` if events are too large for a Jacobian."""
    if batch.x[0].size > WHOLE:
        raise Unsupported(
            f"its events have {batch.x[0].size} entries, too many for a Jacobian", blocked=True
        )


def repeated_calls(
    flow: Living, batch: Batch, count: int, which: str = "forward", mode: Mode = EVAL
) -> list[Mapped]:
    """``count`` calls of one object, each with its own random numbers; the first ones are the same
    for any count.
    """
    run = Run(which, batch.x, batch.context)
    before = [mode] if flow.stateful else []
    return list(flow.play([*before, *[run] * count])[len(before) :])


def factor_of(estimates: Array, truth: Array) -> tuple[float, float]:
    """The least-squares ratio of estimates to the truth over all points, and its standard error;
    estimates of one draw may be correlated.
    """
    with np.errstate(all="ignore"):
        factors = estimates @ truth / (truth @ truth)
    return float(factors.mean()), float(factors.std(ddof=1) / np.sqrt(len(factors)))


def of_a_series(flow: Flow, matrices: Array) -> Array:
    """The matrices whose power series converges, ``(n,)``: contractions. Integrals are no series."""
    if flow.certainty.log_det:
        return np.ones(len(matrices), dtype=bool)
    rest = matrices - np.eye(matrices.shape[1], matrices.shape[2])
    return np.asarray(np.linalg.norm(rest, 2, axis=(1, 2)) < CONTRACTS)


def means(flow: Living, which: str, batch: Batch, truth: Array, usable: Array) -> Residual:
    """The deviation of mean estimates from true log-dets, where these are known."""
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
            method=f"a bias of {float(np.max(ERRORS * error)):.2g} would have been seen",
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
    """Estimates of ``count`` calls on a batch with ``times`` copies of each point, averaged over
    copies, ``(count, rows)``. A repeated history draws the same numbers, so those of the first
    ``before`` calls are left out.
    """
    context = None if batch.context is None else np.repeat(batch.context, times, 0)
    repeated = Batch(np.repeat(batch.x, times, 0), context, batch.seed)
    outs = repeated_calls(flow, repeated, before + count, which, mode)[before:]
    each = np.stack([reported(flow, out, len(repeated.x)) for out in outs])
    return np.asarray(each.reshape(count, len(batch.x), times).mean(2))


def standard_errors(estimates: Array) -> Array:
    """Of the means over calls: ``(calls, points)`` to ``(points,)``."""
    return np.asarray(estimates.std(0, ddof=1) / np.sqrt(len(estimates)))


def excess_over(estimates: Array, goal: Array, usable: Array, slack: Array | float = 0.0) -> Array:
    """The deviation of means from ``goal`` relative to the allowed one: per point, and over all,
    which detects a common offset; ``slack``: an additional allowance.
    """
    share = SHARE * np.abs(goal)
    allowed = np.maximum(ERRORS * standard_errors(estimates), share + 1e-9) + slack
    excess = np.where(usable, np.abs(estimates.mean(0) - goal) / allowed, 0.0)
    if not usable.any() or (slack > share)[usable].any():
        return excess
    each = (estimates - goal)[:, usable].mean(1)
    room = max(ERRORS * float(standard_errors(each)), float(share[usable].mean()) + 1e-9)
    return np.where(usable, np.maximum(excess, abs(each.mean()) / room), 0.0)
