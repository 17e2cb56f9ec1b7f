"""Log-determinants that are estimated: they may be noisy, and somewhat off, but not those of another
map.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from flowref.laws.common.arithmetic import finite_rows, log_abs_det, reported, resolvable
from flowref.laws.common.structure import WHOLE
from flowref.model import (
    BOUND,
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
from flowref.model.abilities import Differentiable, Flow, Living
from flowref.model.steps import Eval, Run

# Estimates that are averaged, and that are where these tell nearly enough; how many standard errors their
# mean may be off, and what share of the log-det a truncated series may lose. Four times as many halve the
# standard error.
ESTIMATES, MORE, ERRORS, LOST = 48, 4 * 48, 8.0, 0.5
# So many calls tell whether an estimate is random at all; a truncated series is not.
FEW = 4
# Log-dets that are smaller tell no sign; nor do those of which the factor is known no better.
SMALL, UNCLEAR = 1e-3, 0.15
# Nor do those of points at which a formula overflows.
LARGE = 1e3
SOURCE = "Grathwohl et al., FFJORD (arXiv:1810.01367), section 3.1; Chen et al., Residual Flows (arXiv:1906.02735)"


class LivingDifferentiable(Differentiable, Living, Protocol):
    """A map that is called more than once, and whose Jacobian the framework gives."""


@requires("its log-det is promised to be exact, or to be a constant")
def estimator(flow: Flow) -> bool:
    """Its log-det is promised to be an estimate, point by point."""
    others = ("batch-statistics", "scalar-ladj")
    return bool(flow.promises.get("estimator")) and not any(map(flow.promises.get, others))


@law(
    "bijection/log-det-estimate",
    about=VOLUME,
    tolerance=BOUND,
    effort=2,
    size=24,
    scales=(0.0, 0.3),
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
    refuse_large(batch)
    matrices = flow.jacobian("forward", batch.x, batch.context)
    truth = log_abs_det(matrices)
    usable = finite_rows(truth) & resolvable(matrices, truth)
    return factors(flow, "forward", batch, truth, usable)


def factors(flow: Living, which: str, batch: Batch, truth: Array, usable: Array) -> Residual:
    """By which factor the estimates of a call are those of true log-dets, where these are known."""
    outs = drawn(flow, batch, FEW, which)
    if any((np.asarray(out.ladj) != np.asarray(outs[0].ladj)).any() for out in outs[1:]):
        outs = drawn(flow, batch, ESTIMATES, which)
    first = np.asarray(outs[0].value)
    if not all(np.allclose(first, out.value, rtol=1e-3, atol=1e-3) for out in outs[1:]):
        raise Undecidable("its values are random, too")
    estimates = np.stack([reported(flow, out, len(batch.x)) for out in outs])
    usable = usable & finite_rows(first) & (np.abs(truth) < LARGE)
    factor, error = factor_of(estimates[:, usable], truth[usable])
    if UNCLEAR <= error < 2 * UNCLEAR:
        outs = drawn(flow, batch, MORE, which)  # the first of which are those that there were
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
        rows * abs(factor - 1) / (LOST + ERRORS * error),
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
        if abs(factor - 1) <= LOST
        else f"the estimates are {factor:.3g} times the log-dets",
    )


def refuse_large(batch: Batch) -> None:
    """Raise `Unsupported` where events are too large for a Jacobian."""
    if batch.x[0].size > WHOLE:
        raise Unsupported(
            f"its events have {batch.x[0].size} entries, too many for a Jacobian", waits=True
        )


def drawn(flow: Living, batch: Batch, count: int, which: str = "forward") -> list[Mapped]:
    """So many calls of one object, each with random numbers of its own; fewer calls are the first of more."""
    run = Run(which, batch.x, batch.context)
    before = [Eval()] if flow.stateful else []
    return list(flow.play([*before, *[run] * count])[len(before) :])


def factor_of(estimates: Array, truth: Array) -> tuple[float, float]:
    """By which factor estimates are on average larger than the truth, over all points, and the
    standard error of that; estimates of one draw may err together.
    """
    with np.errstate(all="ignore"):
        factors = estimates @ truth / (truth @ truth)
    return float(factors.mean()), float(factors.std(ddof=1) / np.sqrt(len(factors)))
