"""Gaussian densities in closed form: the base, and affine flows."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from flowref.laws.common.arithmetic import finite_rows
from flowref.model import (
    NEARBY,
    OPPOSITE,
    VOLUME,
    Array,
    Batch,
    Call,
    Mapped,
    Residual,
    Unsupported,
    law,
    requires,
)
from flowref.model.abilities import Based, Bijection, Density, Flow


class MappedDensity(Bijection, Density, Protocol):
    """A density with a map between its data and its latents."""


LOG_2_PI = math.log(2 * math.pi)
BASE = "standard-normal-base"
MOVED = "its base has moved with the other parameters"


# Affine maps are determined by their values at the origin and at the unit vectors, up to this many
# coordinates.
@requires(f"it does not promise {BASE}")
def promises_normal_base(flow: Flow) -> bool:
    """The base is promised to be standard normal, permanently or "initially"."""
    return bool(flow.promises.get(BASE))


def base_moved(flow: Flow) -> bool:
    """Whether parameters of a base that is standard normal initially have moved."""
    moved = flow.scale > 0 or flow.facts.given
    return bool(flow.promises.get(BASE) == "initially" and moved)


@requires(MOVED)
def base_unmoved(flow: Flow) -> bool:
    """A base that is standard normal initially is so until its parameters move."""
    return not base_moved(flow)


normal_base = promises_normal_base & base_unmoved


def demand_unmoved_base(flow: Flow) -> None:
    """Raises `Unsupported` if the parameters, and with them the base, have moved."""
    if base_moved(flow):
        raise Unsupported(MOVED)


def standard_normal(z: Array) -> Array:
    """The log-density of standard normal events ``(n, *event)``, ``(n,)``, in extended precision."""
    flat = np.asarray(z, dtype=np.longdouble).reshape(len(z), -1)
    return np.asarray(-0.5 * (flat.shape[1] * LOG_2_PI + (flat**2).sum(1)))


@law(
    "density/base-constant",
    key="density/gaussian-const",
    nats=True,
    about=VOLUME,
    points="data",
    local=False,
    scales=NEARBY,
    effort=4,
    applies=normal_base,
    source="the density of the standard normal distribution in D dimensions",
)
def gaussian_const(flow: Based, batch: Batch) -> Residual:
    r"""A standard normal base has the log-density $-\frac{D}{2} \log 2\pi - \frac12 \|z\|^2$ in $D$
    dimensions.
    """
    demand_unmoved_base(flow)
    # Any point will do: latents have as many entries as data.
    shape = flow.latent_shape if flow.normalizing == "forward" else flow.event_shape
    z = batch.x.reshape(len(batch.x), *shape)
    reported = np.asarray(flow.base_log_prob(z, batch.context), dtype=np.float64).reshape(len(z))
    expected = standard_normal(z).astype(np.float64)
    return Residual(
        reported - expected,
        scale=4 + np.abs(expected),
        decidable=finite_rows(expected),
        observed={"base log-density": reported, "closed form": expected},
    )


def normalizing_call(flow: Flow) -> Call[Mapped]:
    """The call that maps data to latents. Raises `Unsupported` if there is none."""
    if flow.normalizing not in flow.calls:
        raise Unsupported(f"it has no {flow.normalizing} to map data to latents")
    return flow.calls[flow.normalizing]


def open_direction(flow: Flow) -> bool:
    """Whether it is neither declared nor decided by shapes which call maps data to latents."""
    return flow.promises.get("direction") == "either" and flow.event_shape == flow.latent_shape


def normalizing_calls(flow: Flow) -> list[str]:
    """The names of the calls that may map data to latents: one, or both if it is not declared and
    shapes do not decide. Raises `Unsupported` if one of both is missing.
    """
    calls = [flow.normalizing]
    if open_direction(flow):
        calls.append(OPPOSITE[flow.normalizing])
    missing = [which for which in calls if which not in flow.calls]
    if missing:
        other = OPPOSITE[missing[0]]
        raise Unsupported(
            f"it has no {missing[0]} to be asked as well, and which call maps data to latents is not known: if "
            f"{other} does, say ?normalizing={other}"
        )
    return calls
