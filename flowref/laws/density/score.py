"""The score of a density."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from flowref.laws.common.amounts import sparing
from flowref.laws.common.arithmetic import finite_rows, rows_max
from flowref.laws.common.cases import CONTEXT
from flowref.laws.common.outcomes import attempt
from flowref.laws.common.quotients import (
    DOUBT,
    STEPS_DOWN,
    Quotient,
    direction_within_support,
    quotient,
    unit_directions,
)
from flowref.laws.common.requirements import (
    calculated,
    exact_density,
    in_double,
    not_estimator,
    true_gradients,
)
from flowref.model import NEARBY, Array, Batch, Residual, Undecidable, Unsupported, law, requires
from flowref.model.abilities import Density, Flow, Pulling, Scoring


class ScoringDensity(Density, Scoring, Pulling, Protocol):
    """A density with its score, whose gradients the framework gives."""


# Relative difference allowed between a score and a difference quotient.
ROUGH = 1e-6


@requires(
    "its log-density is integrated in steps, whose error has a gradient of its own", blocked=True
)
def in_closed_form(flow: Flow) -> bool:
    """Gradients of a solver's result are those of its steps."""
    return not flow.certainty.log_det


@law(
    "density/score",
    points="data",
    scales=NEARBY,
    effort=2,
    size=16,
    applies=in_double
    & true_gradients
    & calculated
    & not_estimator
    & exact_density
    & in_closed_form,
    source="Hyvarinen 2005, Estimation of non-normalized statistical models by score matching: the score is "
    "the gradient of the log-density in the data",
    pointwise=True,
    cases=(CONTEXT,),
)
def score_of_density(flow: ScoringDensity, batch: Batch) -> Residual:
    r"""A score is the gradient of the log-density in the data, $s(x) = \nabla_x \log p(x)$, at the same
    time or context as the log-density.

    The gradient is that of autograd if difference quotients confirm it, otherwise the point is skipped; if no graph is
    recorded, difference quotients replace it.
    """
    x, context, rows = batch.x, batch.context, len(batch.x)
    score, refused = attempt(flow.score, x, context)
    if refused or np.shape(score) != x.shape:
        raise Undecidable(f"score {refused or f'returns shape {np.shape(score)}'}")
    score, log_p = (np.asarray(one, np.float64) for one in (score, flow.log_prob(x, context)))
    good = finite_rows(score, log_p.reshape(rows))
    try:
        gradient, refused = attempt(flow.vjp, "log_prob", x, context, np.ones(rows), None)
    except Unsupported:
        return by_differences(flow, batch, score, good)
    if refused:
        raise Unsupported(f"it cannot be differentiated here ({refused})")
    gradient = np.asarray(gradient, np.float64)
    good &= finite_rows(gradient)
    gap = np.where(good.reshape(-1, *[1] * (x.ndim - 1)), score - gradient, 0.0)
    if gap.any():
        good &= ~contradicted(flow, batch, gap, gradient)
    return Residual(
        gap,
        scale=1 + rows_max(np.nan_to_num(gradient)),
        decidable=good,
        observed={"score": score, "gradient of log p": gradient},
        note="the score differs from the gradient of log_prob",
    )


def contradicted(flow: ScoringDensity, batch: Batch, gap: Array, gradient: Array) -> Array:
    """The rows ``(batch,)`` in which difference quotients along the gap contradict autograd's gradient, as
    that of a detached part: there the score may be right.
    """
    rows = len(gap)
    size = np.linalg.norm(gap.reshape(rows, -1), axis=1).reshape(-1, *[1] * (gap.ndim - 1))
    along = np.where(size > 0, gap / np.where(size > 0, size, 1.0), 0.0)
    slope, allowed, known = slope_of(flow, batch, along)
    claimed = (gradient * along).reshape(rows, -1).sum(1)
    return np.asarray(known & (np.abs(slope.slope - claimed) > allowed))


def by_differences(flow: ScoringDensity, batch: Batch, score: Array, good: Array) -> Residual:
    """The score along a direction less the difference quotient of the log-density."""
    rows = len(score)
    direction = direction_within_support(
        batch.x, unit_directions(batch.x.shape, batch.seed), flow.density_support
    )
    slope, allowed, known = slope_of(flow, batch, direction)
    along = (np.where(np.isfinite(score), score, 0.0) * direction).reshape(rows, -1).sum(1)
    return slope.residual(
        along, allowed, good & known, "the score differs from the difference quotient of log_prob"
    )


def slope_of(flow: ScoringDensity, batch: Batch, direction: Array) -> tuple[Quotient, Array, Array]:
    """The derivative of the log-density along directions, its error bound and whether it is known, ``(batch,)`` each."""
    rows = len(batch.x)

    def measure(at: Array) -> Array:
        return np.asarray(flow.log_prob(at, batch.context), np.float64).reshape(rows)

    with np.errstate(all="ignore"):
        found = quotient(measure, batch.x, direction, flow.density_support, sparing(flow))
        rounding = 2.0**-47 * (1 + np.abs(measure(batch.x))) / STEPS_DOWN[-1]
        allowed = DOUBT * (found.error + rounding) + ROUGH * (1 + np.abs(found.slope))
    return found, allowed, found.resolved(allowed)
