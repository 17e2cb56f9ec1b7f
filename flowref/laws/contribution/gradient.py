"""Gradients of the contribution of a stochastic layer, for a deterministic or stochastic forward."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np

from flowref.laws.common.amounts import sparing
from flowref.laws.common.held_noise import slopes_of
from flowref.laws.common.outcomes import attempt
from flowref.laws.common.quotients import (
    DOUBT,
    STEPS_DOWN,
    direction_within_support,
    quotient,
    unit_directions,
)
from flowref.laws.common.requirements import has_parameters, in_double, true_gradients
from flowref.laws.common.slopes import APPROXIMATE, Slope
from flowref.laws.conduct.parameter_gradients import LARGEST
from flowref.laws.conduct.state import not_fixed
from flowref.laws.contribution.calls import accepted_points, contribution, measurable
from flowref.laws.contribution.places import is_integer_valued
from flowref.model import (
    BOUND,
    NEARBY,
    Array,
    Batch,
    Mapped,
    Residual,
    Undecidable,
    Unsupported,
    law,
    requires,
)
from flowref.model.abilities import Flow, Parametric, Pulling, Pushing

# Larger values may be clipped by a clamp.
MODERATE = 3.0


class PushingParametric(Pushing, Parametric, Protocol):
    """A stochastic layer with parameters that can be moved along a direction."""


class PushingDifferentiable(Pushing, Pulling, Protocol):
    """A stochastic layer with vector-Jacobian products in the data."""


@requires("its forward draws, or does not declare whether it does")
def draws_nothing_forward(flow: Flow) -> bool:
    """Random outputs may be detached on purpose."""
    return flow.facts.kernel is not None and flow.facts.kernel.draws[0] is False


@law(
    "gradient/parameters[contribution]",
    key="contribution/parameter-gradient",
    tolerance=BOUND,
    effort=2,
    size=7,
    scales=NEARBY,
    local=False,
    applies=draws_nothing_forward & in_double & true_gradients & has_parameters & not_fixed,
    version=4,
    source="Nielsen et al., SurVAE Flows (arXiv:2007.02731): all terms of the likelihood are trained together; "
    "a detached one is not trained",
)
def parameter_gradient(flow: PushingParametric, batch: Batch) -> Residual:
    """For a deterministic forward, autograd's derivative of the contribution with respect to the
    parameters is finite and is its derivative.

    Measured along one direction of the space of all parameters, against differences.
    """
    batch, usable = measurable(flow, batch, LARGEST)

    def contributed(out: Mapped) -> Array:
        return contribution(out, len(batch.x))

    inputs = (batch.x, batch.context)
    slope = Slope(flow, "push", inputs, batch.seed, contributed, usable.astype(np.float64))
    compared = slope.compared()
    judged = usable & (compared.decides or not np.isfinite(compared.slope))
    return replace(compared, decides=True).residual(judged, trivial=True)


@law(
    "gradient/input[contribution]",
    key="contribution/point-gradient",
    tolerance=BOUND,
    effort=2,
    size=16,
    scales=NEARBY,
    applies=draws_nothing_forward & in_double & true_gradients,
    version=2,
    source="Nielsen et al., SurVAE Flows (arXiv:2007.02731): what layers before it are trained by is the gradient "
    "of all terms in their outputs",
    pointwise=True,
)
def point_gradient(flow: PushingDifferentiable, batch: Batch) -> Residual:
    r"""For a deterministic forward, autograd's derivative of the contribution with respect to the
    data is finite and is its derivative: $\partial_x V$.

    Measured along a direction, against differences, away from kinks.
    """
    x, rows = accepted_points(flow, batch), len(batch.x)
    direction = direction_within_support(
        x, unit_directions(x.shape, batch.seed) * (1 + np.abs(x)), flow.domain
    )

    def measure(at: Array) -> Array:
        return contribution(flow.push(at, batch.seed, batch.context), rows)

    out = flow.push(x, batch.seed, batch.context)
    here = contribution(out, rows)
    with np.errstate(all="ignore"):
        difference = quotient(measure, x, direction, flow.domain, sparing(flow))
    # A contribution without graph counts as having gradient zero, if the value has a gradient.
    cotangents = np.zeros(np.shape(out.value)), np.ones(rows)
    gradient, refused = attempt(flow.vjp, "push", x, batch.context, *cotangents)
    if refused:
        raise Unsupported(f"it cannot be differentiated here ({refused})")
    with np.errstate(all="ignore"):
        along = (np.asarray(gradient, dtype=np.float64) * direction).reshape(rows, -1).sum(1)
        difference = difference.confirmed_by_smaller_steps(along)
        rounding = 2.0**-47 * (1 + np.abs(here)) / STEPS_DOWN[-1]
        allowed = DOUBT * (difference.error + rounding) + APPROXIMATE * (
            1 + np.abs(difference.slope)
        )
    ordinary = np.abs(x).reshape(rows, -1).max(1, initial=0.0) <= MODERATE
    judged = ordinary & np.isfinite(here) & difference.resolved(allowed)
    trivial = (along == 0) & (np.abs(difference.slope) <= allowed)
    note = (
        "autograd's derivative of the contribution in the data differs from its difference quotient"
    )
    return difference.residual(along, allowed, judged, note, trivial)


@requires("its forward draws nothing, or its inverse draws, too")
def adds_what_it_draws(flow: Flow) -> bool:
    """Markov chain steps are often not differentiated on purpose; deterministic layers have a
    stronger law.
    """
    return flow.facts.kernel is not None and flow.facts.kernel.draws == (True, False)


@law(
    "gradient/parameters[drawn-contribution]",
    key="contribution/sample-gradient",
    tolerance=BOUND,
    local=False,
    scales=NEARBY,
    effort=1,
    size=16,
    applies=adds_what_it_draws & in_double & true_gradients & has_parameters & not_fixed,
    source="Kingma and Welling (arXiv:1312.6114), section 2.4: noise is held and its transform differentiated; "
    "Roeder et al. (arXiv:1703.09194): the score of what draws may be left out, being zero on average",
)
def sample_gradient(flow: PushingParametric, batch: Batch) -> Residual:
    """For a layer that appends what it draws, autograd's derivative of the contribution with
    respect to the parameters is on average that of the contribution with its noise held.

    Measured along one direction of the space of all parameters, at a few points with much noise
    each. Integer latents are exempt, since their gradients may be surrogates on purpose.
    """
    batch, usable = measurable(flow, batch, LARGEST)
    rows = len(batch.x)
    z = np.asarray(flow.push(batch.x, batch.seed, batch.context).value, dtype=np.float64)
    if any(is_integer_valued(entry) for entry in z.reshape(rows, -1).T):
        raise Undecidable("it draws integers, whose gradients may be surrogates on purpose")
    return slopes_of(flow, "push", batch, contribution).residual(
        usable,
        "autograd's derivative of the contribution in the parameters is on average not that with the noise "
        "held: a sample is detached from the parameters it depends on",
    )
