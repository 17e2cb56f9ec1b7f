"""Log-determinants that are estimated without bias: their mean is the log-determinant."""

from __future__ import annotations

import numpy as np

from flowref.laws.bijection.log_det_estimate import (
    LARGE,
    SOURCE,
    LivingDifferentiable,
    drawn,
    estimator,
    refuse_large,
)
from flowref.laws.common.arithmetic import finite_rows, log_abs_det, reported, resolvable
from flowref.model import (
    CONTRACT,
    STATISTICAL,
    VOLUME,
    Array,
    Batch,
    Residual,
    Undecidable,
    law,
)
from flowref.model.abilities import Flow, Living

# Estimates of the two stages, the second of which are fresh; how many standard errors their mean may
# be off, and which share of the log-det, whatever the standard error.
STAGES, ERRORS, SHARE = (100, 400), 5.0, 0.01
# How often a point stands in a batch: noise of rows is averaged in each call, and what a call draws once
# for all of them, as a number of terms, by calls; more often where a round trip takes few operations.
REPEATS, MORE, CHEAP = 32, 128, 2000
# How far a Jacobian may be from the identity.
CONTRACTS = 0.99


@law(
    "bijection/log-det-unbiased",
    about=VOLUME,
    force=CONTRACT,
    promise="unbiased-log-det",
    tolerance=STATISTICAL,
    effort=2,
    size=6,
    scales=(0.0, 0.3),
    local=False,
    applies=estimator,
    source=SOURCE,
)
def log_det_unbiased(flow: LivingDifferentiable, batch: Batch) -> Residual:
    r"""The mean of log-dets that are promised to be estimated without bias is
    $\log|\det \partial f / \partial x|$, at each point: within five standard errors of four hundred
    calls on batches that hold it many times.
    """
    refuse_large(batch)
    matrices = flow.jacobian("forward", batch.x, batch.context)
    truth = log_abs_det(matrices)
    usable = finite_rows(truth) & resolvable(matrices, truth) & of_a_series(flow, matrices)
    return means(flow, "forward", batch, truth, usable)


def of_a_series(flow: Flow, matrices: Array) -> Array:
    """Where a series of a Jacobian converges: that of a matrix that is none of a contraction diverges,
    whatever draws its length. An integral is no series.
    """
    if flow.promises.get("log-det-tolerance"):
        return np.ones(len(matrices), dtype=bool)
    rest = matrices - np.eye(matrices.shape[1], matrices.shape[2])
    return np.asarray(np.linalg.norm(rest, 2, axis=(1, 2)) < CONTRACTS)


def means(flow: Living, which: str, batch: Batch, truth: Array, usable: Array) -> Residual:
    """How far means of estimates are from true log-dets, where these are known."""
    rows = len(batch.x)
    usable = usable & (np.abs(truth) < LARGE)
    excess, mean, error = np.zeros(rows), truth, np.zeros(rows)
    times = MORE if flow.operations < CHEAP else REPEATS
    context = None if batch.context is None else np.repeat(batch.context, times, 0)
    repeated = Batch(np.repeat(batch.x, times, 0), context, batch.seed)
    for stage, count in enumerate(STAGES):
        # One life draws the same numbers again: those of the first stage are left out.
        outs = drawn(flow, repeated, count + sum(STAGES[:stage]), which)[sum(STAGES[:stage]) :]
        each = np.stack([reported(flow, out, len(repeated.x)) for out in outs])
        estimates = each.reshape(count, rows, times).mean(2)
        if not np.isfinite(estimates).all():
            raise Undecidable("an estimate is not finite")
        mean, error = estimates.mean(0), estimates.std(0, ddof=1) / np.sqrt(count)
        allowed = np.maximum(ERRORS * error, SHARE * np.abs(truth) + 1e-9)
        excess = np.where(usable, np.abs(mean - truth) / allowed, 0.0)
        # What is off by as much everywhere is seen in the mean over points.
        excess = np.where(usable, np.maximum(excess, pooled(estimates - truth, truth, usable)), 0.0)
        if (excess <= 1).all():
            break
    return Residual(
        excess,
        allowed=1.0,
        decidable=usable,
        nats=mean - truth,
        observed={"mean of the estimates": mean, "autograd": truth, "standard error": error},
        road=f"a bias of {float(np.max(ERRORS * error)):.2g} would have been seen",
    )


def pooled(errors: Array, truth: Array, usable: Array) -> float:
    """How far the mean over points is off beside what is allowed for it; ``errors`` ``(calls, points)``."""
    if not usable.any():
        return 0.0
    each = errors[:, usable].mean(1)
    error = float(each.std(ddof=1)) / np.sqrt(len(each))
    share = SHARE * float(np.abs(truth[usable]).mean()) + 1e-9
    return float(abs(each.mean()) / max(ERRORS * error, share))
