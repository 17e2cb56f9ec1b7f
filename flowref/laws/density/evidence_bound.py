"""A lower bound of a log-density that an object offers beside the log-density itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np

from flowref.laws.common.amounts import planned
from flowref.laws.common.requirements import calculated, exact_density, not_estimator
from flowref.laws.common.statistics import Finding, Look, critical, infinite_variance, two_stage
from flowref.model import (
    OUTWARD,
    STATISTICAL,
    VOLUME,
    Array,
    Batch,
    Residual,
    Undecidable,
    law,
    requires,
)
from flowref.model.abilities import Bounding, Density, Dequantizer, Flow, Sampler, offers

# Samples at which a bound is drawn first, draws at each, and how many of these points are looked at again.
CANDIDATES, ENOUGH, FIRST, NEAREST = 1024, 64, 32, 8
# Draws of a bound at a point, at each look, and the nats by which rounding may raise it.
DRAWS, NATS = (256, 4096), 1e-6
# The share of what is allowed from which there is a second look.
LOOK_AGAIN = 0.1


class BoundedDensity(Density, Bounding, Sampler, Protocol):
    """A log-density with a lower bound."""


@requires("its data have levels, and the bound may be that of their probabilities")
def has_no_levels(flow: Flow) -> bool:
    """It adds no noise to levels."""
    return not offers(flow, Dequantizer)


@law(
    "density/evidence-bound",
    about=VOLUME,
    points="data",
    tolerance=STATISTICAL,
    local=False,
    scales=OUTWARD,  # near as trained; far from there divergences are large
    effort=4,
    size=1,
    applies=not_estimator & exact_density & calculated & has_no_levels,
    source="Kingma and Welling 2014, Auto-encoding variational Bayes (arXiv:1312.6114), section 2.2: the evidence lower "
    "bound is below the log-likelihood",
)
def bound_is_below(flow: BoundedDensity, batch: Batch) -> Residual:
    r"""A lower bound of the log-density is not above it in the mean, $E[b(x)] \le \log p(x)$, up to the
    error of a mean of four thousand draws, at the samples where it is nearest.
    """
    x = np.asarray(flow.sample(planned(flow, CANDIDATES, ENOUGH), batch.seed, batch.context))
    exact = np.asarray(flow.log_prob(x, batch.context), np.float64).reshape(len(x))

    def drawn(points: Array, draws: int, seed: int) -> Array:
        many = np.repeat(points, draws, 0)
        found = np.asarray(flow.bound(many, seed, batch.context), np.float64)
        return found.reshape(len(points), draws)

    gap = drawn(x, FIRST, batch.seed).mean(1) - exact
    nearest = np.argsort(np.where(np.isfinite(gap), gap, -np.inf))[-NEAREST:]

    def statistic(look: Look) -> Finding:
        values = drawn(x[nearest], look.count, look.seed)
        if not np.isfinite(values).all():
            raise Undecidable("a bound is not finite")
        return compared(values, exact[nearest])

    found = two_stage(statistic, DRAWS, batch.seed + 1, conspicuous=LOOK_AGAIN)
    return replace(found, excess=float(np.max(found.excess)), observed={}).residual(len(batch.x))


def compared(values: Array, exact: Array) -> Finding:
    """Means of draws of a bound ``(rows, draws)`` beside log-densities ``(rows,)``, as multiples of their errors."""
    mean, draws = values.mean(1), values.shape[1]
    room = critical(len(mean), 1e-6) * values.std(1) / np.sqrt(draws) + NATS * (1 + np.abs(exact))
    excess = np.maximum(mean - exact, 0.0) / room
    worst = int(excess.argmax())
    doubt = ""
    if (mean > exact).all() and (-mean <= exact + room).all():
        doubt = "its bound may be minus a bound, as a loss"
    elif infinite_variance(values[worst].max() - values[worst]):
        doubt = "draws of its bound have a heavy tail, of which some may be missing"
    return Finding(
        excess,
        {"mean of the bound": mean, "log-density": exact},
        f"the bound is {mean[worst]:.6g} in the mean of {draws} draws, the log-density {exact[worst]:.6g}",
        doubt=doubt,
    )
