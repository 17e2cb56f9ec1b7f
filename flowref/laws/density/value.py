"""Densities: the change of variables, and total mass one."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from flowref.laws.common.arithmetic import finite_rows, reported
from flowref.laws.common.cases import CONTEXT, TRAIN
from flowref.laws.common.quadrature import MASS_FLOOR, mass_apart, total_mass
from flowref.laws.common.requirements import exact_density, exact_log_det
from flowref.laws.density.base import normalizing_call
from flowref.laws.density.pictures import density_map
from flowref.model import (
    BOUND,
    VOLUME,
    Array,
    Batch,
    Call,
    Mapped,
    Residual,
    Undecidable,
    Unsupported,
    law,
    requires,
)
from flowref.model.abilities import Based, Bijection, Density, Flow, Refinable, offers


class BasedDensity(Based, Density, Protocol):
    """A density with that of its base."""


class MappedDensity(BasedDensity, Bijection, Protocol):
    """A density with that of its base, and the map between them."""


CHANGE = "log p(x) = log p_Z(f(x)) + log|det df/dx|; Dinh et al., Real NVP (arXiv:1605.08803), section 3.1"
QUADRATURE_FACTOR = 20.0
# With so many times the steps of a solver its error falls to a quarter of itself or less, whatever its order;
# which share of it may be left, with room for the coarse grid on which that is seen; and what no solver that
# anybody would use is off by.
STEPS, LEFT, GROSS = 4, 0.35, 0.5
LOW_DIMENSIONAL = "quadrature is done in one and two dimensions"


def change(
    flow: BasedDensity, x: Array, context: Array | None, call: Call[Mapped]
) -> tuple[Array, Array, Array]:
    """log p(x) as reported, the base log-density at the latent, and the log-det of the map to it."""
    out = call(x, context)
    base = np.asarray(flow.base_log_prob(out.value, context), dtype=np.float64).reshape(len(x))
    return (
        np.asarray(flow.log_prob(x, context), dtype=np.float64).reshape(len(x)),
        base,
        reported(flow, out, len(x)),
    )


@law(
    "density/change-of-variables",
    nats=True,
    about=VOLUME,
    points="data",
    applies=exact_log_det & exact_density,
    effort=8,
    source=CHANGE,
    cases=(TRAIN, CONTEXT),
)
def change_of_variables(flow: MappedDensity, batch: Batch) -> Residual:
    r"""The log-density is that of the base at the latent plus the log-det:
    $\log p(x) = \log p_Z(f(x)) + \mathrm{ladj}(x)$.
    """
    density, base, ladj = change(flow, batch.x, batch.context, normalizing_call(flow))
    gap = density - base - ladj
    if flow.promises.get("direction") == "either" and "inverse" in flow.calls:
        # User code does not say which call maps data to latents; the identity may hold with either.
        _, other, back = change(flow, batch.x, batch.context, flow.calls["inverse"])
        opposite = density - other - back
        if np.nanmax(np.abs(opposite), initial=0.0) < 1e-6 * (
            1 + np.nanmax(np.abs(density), initial=0.0)
        ):
            gap = opposite
    size = np.where(np.isfinite(base), np.abs(base), 0.0) + np.where(
        np.isfinite(ladj), np.abs(ladj), 0.0
    )
    return Residual(
        gap,
        scale=4 + size,
        decidable=finite_rows(base, ladj),
        observed={"log p(x)": density, "base + log-det": base + ladj},
    )


@requires(
    "quadrature is done in few dimensions; sampling/overlap judges the mass of what is sampled"
)
def unsampled(flow: Flow) -> bool:
    """Of many dimensions samples tell as much."""
    return math.prod(flow.density_shape) <= 2 or "sample" not in flow.calls


@requires(LOW_DIMENSIONAL, waits=True)
def low_dimensional(flow: Flow) -> bool:
    """Few dimensions, for a product grid; the reason tells how many there are."""
    size = math.prod(flow.density_shape)
    if size > 2:
        raise Unsupported(f"{LOW_DIMENSIONAL}; it has {size}")
    return True


@requires("its support is no box", waits=True)
def on_a_box(flow: Flow) -> bool:
    """A product grid covers the support."""
    kind = flow.density_support.kind
    return kind not in ("simplex", "ordered") or math.prod(flow.density_shape) <= 1


@requires("its formulas are promised on a part of the support only")
def promised_everywhere(flow: Flow) -> bool:
    """The mass is counted on the whole support."""
    return not flow.promises.get("truncated-domain")


@law(
    "density/integrates-to-one",
    about=VOLUME,
    former="density/normalises",
    points="data",
    tolerance=BOUND,
    scales=(0.0, 0.3),
    size=1,
    effort=2,
    picture=density_map,
    applies=unsampled
    & low_dimensional
    & on_a_box
    & promised_everywhere
    & exact_log_det
    & exact_density,
    version=3,
    source="a density integrates to one",
    cases=(CONTEXT,),
)
def normalizes(flow: Density, batch: Batch) -> Residual:
    r"""The density integrates to one: $\int e^{\log p(x)}\,dx = 1$ (quadrature, one and two
    dimensions).
    """
    mass, error = total_mass(flow, batch)
    allowed = (
        QUADRATURE_FACTOR * error
        + MASS_FLOOR
        + float(flow.promises.get("normalization-tolerance", 0.0))
        + float(flow.promises.get("log-det-tolerance", 0.0))
    )
    if not np.isfinite(mass) or allowed > 0.05:
        raise Undecidable(
            f"the quadrature does not settle (estimate {mass:.4g}, error {error:.1g})"
        )
    if allowed < abs(mass - 1) < GROSS and _of_its_steps(flow, batch, mass - 1):
        raise Undecidable(
            f"the mass is {mass:.4g}, and comes nearer to one with the steps of its solver: it is the error "
            "of these"
        )
    return Residual(
        np.array([mass - 1.0]),
        allowed=allowed,
        nats=np.log(np.array([max(mass, 0.0)])),
        observed={"integral": np.array([mass])},
    )


def _of_its_steps(flow: Density, batch: Batch, off: float) -> bool:
    """Whether what the mass is off by falls as a solver takes more steps, of which nobody states how
    accurate it is.
    """
    if not offers(flow, Refinable):
        return False
    try:
        finer = flow.refined(STEPS)
        fallen = 0.0 if finer is None else mass_apart(flow, finer, batch)
    except Exception:  # more steps may take more than there is
        return False
    return abs(off - fallen) <= LEFT * abs(off)
