"""The promise of a residual map that g is a contraction."""

from __future__ import annotations

import numpy as np

from flowref.laws.common.arithmetic import finite_rows
from flowref.laws.common.cases import TRAINED
from flowref.laws.common.structure import WHOLE
from flowref.model import (
    BOUND,
    CONTRACT,
    GIVEN,
    Array,
    Batch,
    Residual,
    Undecidable,
    law,
    requires,
)
from flowref.model.abilities import Bijection, Differentiable, Flow, offers

# Factors by which points are moved apart, so that pairs at all distances are compared.
APART = (1e-3, 0.3, 1.0, 10.0)
# Tolerance of a declared constant: as a bound it may be exceeded by rounding.
SLACK, UNITS = 1e-6, 64 * np.finfo(np.float64).eps
SOURCE = (
    "Behrmann et al., Invertible Residual Networks (arXiv:1811.00995), theorem 1: x + g(x) is invertible "
    "where the Lipschitz constant of g is less than 1"
)


@requires("its events and its latents are of different sizes", blocked=True)
def event_matches_latent_shape(flow: Flow) -> bool:
    """x + g(x) needs events and latents of one shape."""
    return flow.event_shape == flow.latent_shape


@law(
    "map/promised-jacobian[lipschitz]",
    key="residual/contraction",
    force=CONTRACT,
    promise="contraction",
    tolerance=BOUND,
    effort=4,
    size=16,
    scales=GIVEN,
    local=False,
    applies=event_matches_latent_shape,
    source=SOURCE,
    cases=(TRAINED,),
)
def contraction(flow: Bijection, batch: Batch) -> Residual:
    r"""A map $x + g(x)$ that promises a Lipschitz constant c < 1 of g has
    $\|g(a) - g(b)\| \le c\,\|a - b\|$, for points near and far, and $\|J_g(x)\|_2 \le c$.
    """
    bound, rows = promised_lipschitz_constant(flow), len(batch.x)
    found = np.zeros(rows)
    here, good = rest(flow, batch.x, batch.context)
    for factor in APART:
        other = batch.x + factor * (batch.x[::-1] - batch.x if rows > 1 else 1.0)
        there, fine = rest(flow, other, batch.context)
        distance = norm(other - batch.x)
        far = fine & good & (distance > 1e-6 * (1 + norm(batch.x)))
        # Rounding of a short distance is not due to g.
        lost = UNITS * (norm(here) + norm(there) + norm(batch.x) + norm(other))
        with np.errstate(all="ignore"):
            ratio = (norm(here - there) - lost) / distance
        found = np.maximum(found, np.where(far, ratio, 0.0))
    if offers(flow, Differentiable) and batch.x[0].size <= WHOLE:
        matrices = flow.jacobian("forward", batch.x, batch.context)
        slopes = matrices - np.eye(matrices.shape[1])
        known = finite_rows(slopes.reshape(rows, -1))
        slopes = np.where(known[:, None, None], slopes, 0.0)
        found = np.maximum(found, np.linalg.svd(slopes, compute_uv=False)[:, 0])
    return Residual(
        np.maximum(found - bound * (1 + SLACK), 0.0),
        allowed=UNITS,
        decidable=good,
        observed={"Lipschitz constant": found, "promised": np.full(rows, bound)},
    )


def promised_lipschitz_constant(flow: Flow) -> float:
    """The declared Lipschitz constant of g. Raises `Undecidable` if it is not below 1."""
    bound = float(flow.promises["contraction"])
    if not 0 < bound < 1:
        raise Undecidable(
            f"it promises a Lipschitz constant of {bound:g}; a contraction has less than 1"
        )
    return bound


def rest(flow: Bijection, x: Array, context: Array | None) -> tuple[Array, Array]:
    """g(x) of each row, ``(n, d)``, and where it is finite, ``(n,)``."""
    g = np.asarray(flow.forward(x, context).value, dtype=np.float64) - x
    good = finite_rows(g.reshape(len(x), -1))
    return np.where(good[:, None], g.reshape(len(x), -1), 0.0), good


def norm(x: Array) -> Array:
    """The Euclidean norm of each row, ``(n,)``."""
    return np.asarray(np.linalg.norm(x.reshape(len(x), -1), axis=1))
