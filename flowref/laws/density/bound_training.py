"""Random lower bounds: gradients and independence of rows."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from flowref.laws.common.held_noise import slopes_of
from flowref.laws.common.requirements import has_parameters, in_double, true_gradients
from flowref.laws.conduct.state import not_fixed
from flowref.model import (
    BOUND,
    NEARBY,
    VOLUME,
    Batch,
    Residual,
    Undecidable,
    law,
    requires,
)
from flowref.model.abilities import Density, Flow, Parametric

# The effect of other rows by an adaptive solver.
COUPLED = 1e-3


class TrainedBound(Density, Parametric, Protocol):
    """A log-density with parameters that can be moved along a direction."""


@requires("its log-density is no random lower bound")
def random_bound(flow: Flow) -> bool:
    """Exact log-densities have stronger laws of their own."""
    return bool(flow.certainty.bound) and flow.certainty.estimate


@law(
    "gradient/parameters[bound]",
    key="density/bound-gradient",
    about=VOLUME,
    points="data",
    tolerance=BOUND,
    local=False,
    scales=NEARBY,
    effort=1,
    size=16,
    applies=random_bound & in_double & true_gradients & has_parameters & not_fixed,
    version=3,
    source="Kingma and Welling (arXiv:1312.6114), section 2.4: noise is held and its transform differentiated; "
    "Roeder et al. (arXiv:1703.09194): the score of the posterior may be left out, being zero on average",
)
def bound_gradient(flow: TrainedBound, batch: Batch) -> Residual:
    """Autograd's derivative of a random lower bound with respect to the parameters is on average
    that of the bound with its noise held: no sample is detached from the parameters that it
    depends on.

    Measured along one direction of the space of all parameters, at a few points with much noise
    each.
    """
    return slopes_of(
        flow, "log_prob", batch, lambda out, rows: np.asarray(out.value, np.float64).reshape(rows)
    ).residual(np.ones(len(batch.x), dtype=bool))


@law(
    "same/rows[bound]",
    key="density/bound-rows-independent",
    about=VOLUME,
    points="data",
    tolerance=BOUND,
    local=False,
    effort=2,
    size=16,
    applies=random_bound,
    source="Burda et al. (arXiv:1509.00519), equation 8: the average is over the samples of one point",
)
def bound_rows_independent(flow: Density, batch: Batch) -> Residual:
    """With the same noise the bound of a point does not depend on the other points of its batch:
    no average is over samples of several points.

    The batch keeps its size, since noise is drawn for all rows together.
    """
    rows = len(batch.x)
    if rows < 2:
        raise Undecidable("the batch has one row")
    kept = np.arange(rows) % 2 == 0
    shape = (-1, *[1] * (batch.x.ndim - 1))
    # The replaced rows are other points of the batch, in a different place.
    other = np.where(kept.reshape(shape), batch.x, np.roll(batch.x, 1, 0))
    here, there = (
        np.asarray(flow.log_prob(x, batch.context), dtype=np.float64).reshape(rows)
        for x in (batch.x, other)
    )
    good = kept & np.isfinite(here) & np.isfinite(there)
    return Residual(
        np.where(good, np.abs(np.where(good, here - there, 0.0)), 0.0),
        allowed=COUPLED * (1 + np.where(good, np.abs(here), 0.0)),
        decidable=good,
        observed={"beside these": here, "beside others": there},
    )
