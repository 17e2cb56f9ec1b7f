"""The variance of a series of random length: finite if it stops rarely enough."""

from __future__ import annotations

import numpy as np

from flowref.laws.bijection.log_det_estimate import refuse_large
from flowref.laws.common.arithmetic import finite_rows
from flowref.laws.residual.contraction import event_matches_latent_shape
from flowref.model import (
    ADVICE,
    BOUND,
    GIVEN,
    VOLUME,
    Batch,
    Residual,
    Undecidable,
    law,
    requires,
)
from flowref.model.abilities import Differentiable, Flow

# Rounding of the eigenvalues of a Jacobian.
ROUNDED = 1e-6


@requires("it promises no geometric_stop, so the length of its series is not known")
def stops(flow: Flow) -> bool:
    """The number of terms is geometrically distributed."""
    return bool(flow.promises.get("geometric-stop"))


@law(
    "residual/finite-variance",
    force=ADVICE,
    about=VOLUME,
    tolerance=BOUND,
    effort=2,
    size=16,
    scales=GIVEN,
    local=False,
    applies=stops & event_matches_latent_shape,
    source="Chen et al., Residual Flows (arXiv:1906.02735), section 3.1: each term is divided by the chance that it "
    "is reached",
)
def finite_variance(flow: Differentiable, batch: Batch) -> Residual:
    r"""A series that stops after each term with probability p has terms of size $\rho^k / k$ at a
    point where $J_g$ has spectral radius $\rho$, divided by probabilities $(1 - p)^k$: their
    variance is finite if $\rho^2 \le 1 - p$.

    Advice: with an infinite variance estimates are still unbiased.
    """
    stop, rows = float(flow.promises["geometric-stop"]), len(batch.x)
    if not 0 < stop < 1:
        raise Undecidable(f"it promises to stop with probability {stop:g}; expected one below 1")
    refuse_large(batch)
    matrices = flow.jacobian("forward", batch.x, batch.context)
    rest = (matrices - np.eye(matrices.shape[1])).reshape(rows, -1)
    known = finite_rows(rest)
    slopes = np.where(known[:, None], rest, 0.0).reshape(matrices.shape)
    radius = np.abs(np.linalg.eigvals(slopes)).max(1)
    return Residual(
        np.maximum(radius**2 / (1 - stop) - 1, 0.0),
        allowed=ROUNDED,
        decidable=known,
        observed={"spectral radius": radius, "to go on": np.full(rows, 1 - stop)},
        note=f"it continues with probability {1 - stop:.3g}, and g has a spectral radius of {radius.max():.3g}",
    )
