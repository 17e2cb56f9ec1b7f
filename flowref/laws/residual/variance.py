"""How far a series of random length may be trusted: its variance is finite where it stops seldom enough."""

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

# What rounding of a Jacobian may do to its eigenvalues.
ROUNDED = 1e-6


@requires("it promises no geometric_stop, so the length of its series is not known")
def stops(flow: Flow) -> bool:
    """A geometric number of terms."""
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
    r"""A series that stops after each term with chance p has terms of size $\rho^k / k$ at a point where
    $J_g$ has the spectral radius $\rho$, divided by chances that fall as $(1 - p)^k$: their squares
    have a finite mean where $\rho^2 \le 1 - p$.

    An advice: with an infinite variance estimates are right on average, and no number of them shows it.
    """
    stop, rows = float(flow.promises["geometric-stop"]), len(batch.x)
    if not 0 < stop < 1:
        raise Undecidable(f"it promises to stop with a chance of {stop:g}; expected one below 1")
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
        note=f"it goes on with a chance of {1 - stop:.3g}, and g has a spectral radius of {radius.max():.3g}",
    )
