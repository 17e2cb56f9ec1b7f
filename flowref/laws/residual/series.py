"""Estimated log-dets of residual maps are sums of their power series."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flowref.laws.bijection.log_det_estimate import (
    CONTRACTS,
    EVAL,
    FEW,
    LARGE,
    LivingDifferentiable,
    Mode,
    drawn_in_training,
    estimator,
    excess_over,
    fresh_estimates,
    repeated_calls,
    standard_errors,
    true_log_dets,
)
from flowref.laws.bijection.roundtrip import inverse_tolerance
from flowref.laws.common.arithmetic import log_abs_det
from flowref.laws.common.requirements import exact_log_det, has_modules
from flowref.laws.common.statistics import ERRORS, Finding, Look, two_stage
from flowref.laws.residual.contraction import event_matches_latent_shape
from flowref.model import (
    OUTWARD,
    STATISTICAL,
    VOLUME,
    Array,
    Batch,
    Mapped,
    Residual,
    Undecidable,
    law,
)
from flowref.model.abilities import Bijection, Flow, Refinable, offers
from flowref.model.steps import Train

# Work and number of estimates of the first stage, the factor of the second; and copies of a point
# in a batch: random numbers shared by all rows, as a number of terms, are averaged over calls only.
# More copies if the work permits.
WORK, LEAST, ESTIMATES, LATER, REPEATS = 60_000, 80, 600, 4, (128, 1024)
ROOM = 400_000_000
# From this share of the allowed difference on, the second stage decides.
CONSPICUOUS = 0.4
# Longer series are not truncated.
LONGEST = 60
# The range of relative changes of values under twice the steps that shows a solver; and the factor
# of the change of a log-det that its steps may leave: at first order they leave as much again.
MOVES, BEYOND = (1e-10, 0.1), 3.0
# Points that are measured: those of the batch with the series farthest from its first term.
MEASURED = 4
# Number of terms to separate by their size at this many points; the number of calls with an unusual
# factor from which on its mean is known, its tolerance whatever the standard error, and the
# relative size below which terms are not independent.
APART, FEWEST, SEEN, OFF, INDEPENDENT = 6, 12, 50, 0.1, 1e-6
# A series must differ from its limit at some points; a tiny contraction has a single term.
RELEVANT = 0.02
# Relative agreement of the sum of many terms with the log-det.
STILL_OFF = 1e-6


@law(
    "map/log-det-unbiased[series]",
    key="residual/log-det-series",
    about=VOLUME,
    tolerance=STATISTICAL,
    effort=2,
    size=48,
    scales=OUTWARD,
    local=False,
    applies=estimator & event_matches_latent_shape,
    version=2,
    source="Behrmann et al., Invertible Residual Networks (arXiv:1811.00995), equation 4, cut after n terms; "
    "Chen et al., Residual Flows (arXiv:1906.02735), theorem 1, without bias",
)
def log_det_series(flow: LivingDifferentiable, batch: Batch) -> Residual:
    r"""If $J_f = I + J_g$ with a contraction g, an estimated log-det is on average $\log|\det
    J_f|$, or the sum of the first n terms of its series, $\sum_{k \le n} (-1)^{k+1}
    \mathrm{tr}(J_g^k) / k$, with one n for all points; if it is promised to be unbiased,
    $\log|\det J_f|$. For a solver, steps of half the length give the allowed difference.

    If calls draw the number of terms, each of the first terms is multiplied by a random factor; the
    mean of that factor is compared as well, however small the term is.

    Five standard errors are allowed; if a first stage is conspicuous, fresh draws decide.
    """
    return means_of_series(flow, batch)


@law(
    "map/log-det-unbiased[series, train]",
    about=VOLUME,
    tolerance=STATISTICAL,
    effort=2,
    size=48,
    scales=OUTWARD,
    local=False,
    applies=has_modules & exact_log_det & event_matches_latent_shape,
    source="Grathwohl et al., FFJORD (arXiv:1810.01367), section 3.1; Chen et al., Residual Flows (arXiv:1906.02735), "
    "theorem 1",
)
def train_log_det_series(flow: LivingDifferentiable, batch: Batch) -> Residual:
    r"""A log-det that is estimated in train mode only is on average $\log|\det J_f|$ there, as the
    sum of a series or of the steps of a solver, or the sum of the first n terms of its series.

    Five standard errors are allowed; if a first stage is conspicuous, fresh draws decide.
    """
    drawn_in_training(flow, batch)
    return means_of_series(flow, batch, Train())


def means_of_series(flow: LivingDifferentiable, batch: Batch, mode: Mode = EVAL) -> Residual:
    """The smallest deviation of mean estimates from the permitted values."""
    matrices, truth, usable = true_log_dets(flow, batch)
    rest = matrices - np.eye(matrices.shape[1], matrices.shape[2])
    rest = np.where(np.isfinite(rest), rest, 0.0)
    sums = partial_sums(rest)
    finer = with_more_steps(flow, batch)
    if finer is None:
        usable &= np.linalg.norm(rest, 2, axis=(1, 2)) < CONTRACTS
        # Points with a single relevant term decide nothing.
        usable &= np.abs(sums[0] - truth) > RELEVANT * (1e-3 + np.abs(truth))
        if not usable.any():
            # With the given weights there may be no series: other states decide.
            none = np.zeros(len(batch.x))
            note = "its Jacobian is nowhere the identity plus a contraction"
            return Residual(none, decidable=none > 0, note=note)
    total, usable = len(batch.x), usable & (np.abs(truth) < LARGE)
    wide = Terms.of(batch.rows(usable), rest[usable], sums[LONGEST - 1][usable], truth[usable])
    chosen = np.argsort(-np.where(usable, np.abs(sums[0] - truth), -1.0), kind="stable")[:MEASURED]
    batch, truth, usable = batch.rows(chosen), truth[chosen], usable[chosen]
    sums = [one[chosen] for one in sums]
    goals = [truth] if flow.certainty.unbiased else [truth, *sums]
    context = None if batch.context is None else batch.context[:1]
    operations = flow.forward.observe(batch.x[:1], context).operations
    several = min(ESTIMATES, max(LEAST, WORK // max(1, operations)))
    # Deterministic estimates are called twice, anew at each look.
    times = 1
    if estimates_are_random(flow, batch, mode):
        entries = several * (1 + LATER) * batch.x.size * max(1, operations)
        times = int(np.clip(ROOM // entries, *REPEATS))
    slack = looseness(flow, batch, truth)
    if finer is not None:
        slack = slack + of_steps(flow, finer, batch, truth, mode)

    def biases(look: Look) -> Finding:
        before, count = (several * look.index, look.count) if times > 1 else (0, 2)
        estimates = fresh_estimates(flow, batch, times, count, before, mode=mode)
        if not np.isfinite(estimates[:, usable]).all():
            raise Undecidable("an estimate is not finite")
        error = standard_errors(estimates)
        each = [excess_over(estimates, goal, usable, slack) for goal in goals]
        if times > 1 and finer is None and wide is not None:
            drawn_there = fresh_estimates(
                flow, wide.batch, 1, look.count, several * look.index, mode=mode
            )
            cut = len(goals) - 1
            each = [
                np.maximum(one, np.where(usable, excess, 0.0))
                for one, excess in zip(each, wide.excesses(drawn_there, cut), strict=True)
            ]
        best = int(np.argmin([one.max() for one in each]))
        observed = {
            "mean of the estimates": estimates.mean(0),
            "log-det": truth,
            "its first term": sums[0],
            "standard error": error,
        }
        return Finding(
            scattered_rows(each[best], chosen, total),
            {name: scattered_rows(values, chosen, total) for name, values in observed.items()},
            "the estimates are neither log-dets nor sums of the first terms of their series"
            if len(goals) > 1
            else "the estimates are not log-dets on average",
            f"as {'the log-det' if not best else f'the sum of {best} terms'}; a bias of "
            f"{float(np.max((ERRORS * error + slack)[usable], initial=0.0)):.2g} would have been seen",
        )

    found = two_stage(biases, (several, LATER * several), batch.seed, CONSPICUOUS)
    return found.residual(decidable=scattered_rows(usable, chosen, total) > 0)


@dataclass(frozen=True)
class Terms:
    """Points of a batch, their log-dets, and the terms of their series, ``(points, terms)``;
    ``factors``: the linear map from estimates to the factor of each of the first terms.
    """

    batch: Batch
    truth: Array
    terms: Array
    factors: Array

    @classmethod
    def of(cls, batch: Batch, rest: Array, whole: Array, truth: Array) -> Terms | None:
        """The terms of a contraction whose sum is its log-det; None if terms cannot be separated."""
        near = np.abs(whole - truth) <= STILL_OFF * (1 + np.abs(truth))
        if near.sum() < FEWEST:
            return None
        batch, rest, truth = batch.rows(near), rest[near], truth[near]
        terms = np.diff(np.stack(partial_sums(rest), 1), axis=1, prepend=0.0)
        first = terms[:, : min(APART, len(terms) // 2)]
        sizes = np.linalg.norm(first, axis=0)
        if not sizes.all():
            return None
        values = np.linalg.svd(first / sizes, compute_uv=False)
        if values[-1] < INDEPENDENT * values[0]:
            return None
        return cls(batch, truth, terms, np.linalg.pinv(first / sizes) / sizes[:, None])

    def excesses(self, estimates: Array, cut: int) -> list[float]:
        """The deviation of mean factors of terms from those of the log-det, and of the sums of the
        first 1, 2, ..., ``cut`` terms, relative to the allowed one. Random numbers shared by all
        points do not count.
        """
        each = estimates @ self.factors.T
        error = standard_errors(each)
        seen = (np.abs(each - np.median(each, 0)) > OFF).sum(0) >= SEEN
        sums = np.cumsum(self.terms, axis=1)[:, :cut]
        goals = np.concatenate([self.truth[:, None], sums], 1).T @ self.factors.T
        off = np.abs(each.mean(0) - goals) / (ERRORS * error + OFF)
        return [float(one[seen].max(initial=0.0)) for one in off]


def with_more_steps(flow: Flow, batch: Batch) -> LivingDifferentiable | None:
    """The flow with twice the steps, if these change its values: its log-det is then integrated
    along a path. None otherwise, as more terms of a series do not change the map.
    """
    if not flow.certainty.log_det or not offers(flow, Refinable):
        return None
    finer = flow.refined(2)
    if finer is None or not offers(finer, LivingDifferentiable) or not offers(flow, Bijection):
        return None
    few = batch.rows(slice(0, FEW))
    one, other = (np.asarray(each.forward(few.x, few.context).value) for each in (flow, finer))
    apart = np.abs(other - one).max(initial=0.0) / (1 + np.abs(one).max(initial=0.0))
    return finer if MOVES[0] < apart < MOVES[1] else None


def of_steps(
    flow: LivingDifferentiable,
    finer: LivingDifferentiable,
    batch: Batch,
    truth: Array,
    mode: Mode,
) -> Array:
    """The change under steps of half the length, in estimates of the same draws and in the
    log-det, ``(rows,)``: the remaining error is of the same size.
    """
    one, other = (fresh_estimates(each, batch, 1, LEAST, mode=mode) for each in (flow, finer))
    changed = np.abs((one - other).mean(0))
    moved = np.abs(true_log_dets(finer, batch)[1] - truth)
    return np.asarray(BEYOND * np.nan_to_num(changed + moved, nan=np.inf))


def scattered_rows(values: Array, chosen: Array, rows: int) -> Array:
    """Values placed in the chosen rows, zeros elsewhere, ``(rows,)``."""
    out = np.zeros(rows)
    out[chosen] = values
    return out


def partial_sums(rest: Array) -> list[Array]:
    """The sums of the first 1, 2, ... terms for Jacobians of g, ``(points, d, d)``; each
    ``(points,)``.
    """
    power, total, sums = np.eye(rest.shape[1]), np.zeros(len(rest)), []
    for k in range(1, LONGEST + 1):
        power = power @ rest
        total = total + (-1) ** (k + 1) * np.trace(power, axis1=1, axis2=2) / k
        sums.append(total)
    return sums


def estimates_are_random(flow: LivingDifferentiable, batch: Batch, mode: Mode = EVAL) -> bool:
    """Whether estimates differ from call to call. Raises `Undecidable` if values do."""
    outs: list[Mapped] = repeated_calls(flow, batch, FEW, mode=mode)
    first = np.asarray(outs[0].value)
    if not all(np.allclose(first, out.value, rtol=1e-3, atol=1e-3) for out in outs[1:]):
        raise Undecidable("its values are random, too")
    return any((np.asarray(out.ladj) != np.asarray(outs[0].ladj)).any() for out in outs[1:])


def looseness(flow: LivingDifferentiable, batch: Batch, truth: Array) -> Array:
    """The change of the log-det within the tolerance of an iterative map, ``(rows,)``."""
    tolerance = inverse_tolerance(flow, batch.x)
    if not tolerance.any():
        return np.zeros(len(truth))
    step = tolerance.reshape(-1, *[1] * (batch.x.ndim - 1))
    moved = [
        np.abs(log_abs_det(flow.jacobian("forward", batch.x + s * step, batch.context)) - truth)
        for s in (1.0, -1.0)
    ]
    return np.asarray(4 * np.nan_to_num(np.maximum(*moved)) + tolerance)
