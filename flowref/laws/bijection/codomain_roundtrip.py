"""The inverse maps the codomain into the domain."""

from __future__ import annotations

import numpy as np

from flowref.laws.bijection.roundtrip import inverse_tolerance, unit
from flowref.laws.common.arithmetic import EDGED, rows_max
from flowref.model import Array, Batch, Residual, Support, law, requires
from flowref.model.abilities import Flow, Invertible

DEFINITION = "definition of a bijection between two sets"


@requires("its domain has no ends, or its codomain is not declared")
def ends_of_domain(flow: Flow) -> bool:
    """The domain is bounded, and the codomain declared."""
    return flow.facts.declared and flow.domain.kind in EDGED and flow.codomain is not None


def distance_outside_support(support: Support, values: Array) -> tuple[Array, Array]:
    """The distance of each value from the closed support, ``(n, ...)``, 0 for nan; and the scale
    of each row, ``(n,)``.
    """
    flat, (low, high) = values.reshape(len(values), -1), support.ends
    with np.errstate(invalid="ignore"):
        out = np.maximum(np.maximum(low - flat, flat - high), 0.0)
    ends = [np.where(np.isfinite(end), np.abs(end), 0.0) for end in (low, high)]
    return np.where(np.isfinite(out), out, 0.0), 1 + rows_max(flat * 0 + np.maximum(*ends))


@law(
    "map/domain[preimage]",
    key="bijection/back-into-domain",
    scanned=True,
    points="latents",
    local=False,
    applies=ends_of_domain,
    effort=2,
    source=DEFINITION,
)
def back_into_domain(flow: Invertible, batch: Batch) -> Residual:
    """$f^{-1}(z)$ lies in the domain for every $z$ in the codomain, up to rounding at its ends."""
    x = flow.inverse(batch.x, batch.context).value
    out, scale = distance_outside_support(flow.domain, x)
    note = "the inverse of a point of the codomain lies outside of the domain"
    return Residual(
        out,
        scale=scale,
        allowed=unit(flow) + inverse_tolerance(flow, x),
        decidable=np.asarray(np.isfinite(x).reshape(len(x), -1).all(1)),
        observed={"z": batch.x, "inverse(z)": x},
        note=note,
    )
