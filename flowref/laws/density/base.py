"""Gaussian densities in closed form: the base, and flows that are affine."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from flowref.laws.common.arithmetic import finite_rows, log_abs_det
from flowref.laws.common.requirements import exact_log_det
from flowref.model import Array, Batch, Residual, Unsupported, law
from flowref.model.abilities import Based, Bijection, Density, Flow


class BijectionDensity(Bijection, Density, Protocol):
    """BijectionDensity."""


LOG_2_PI = math.log(2 * math.pi)
BASE = "standard-normal-base"
# Affine maps are told from their values at the origin and at the unit vectors of so many
# coordinates.
AFFINE_SIZE = 64


def normal_base(flow: Flow) -> str | None:
    """Why a subject is not known to have a standard normal base, or None if it is."""
    known = flow.promises.get(BASE)
    if not known:
        return f"it does not promise {BASE}"
    if known == "initially" and flow.scale > 0:
        return "its base has moved with the other parameters"
    return None


def standard_normal(z: Array) -> Array:
    """The log-density of standard normal events, ``(batch,)``, in extended precision."""
    flat = np.asarray(z, dtype=np.longdouble).reshape(len(z), -1)
    return np.asarray(-0.5 * (flat.shape[1] * LOG_2_PI + (flat**2).sum(1)))


@law(
    "density/gaussian-constant",
    former="density/gaussian-const",
    given="data",
    local=False,
    scales=(0.0, 0.3),
    effort=4,
    applies=normal_base,
    source="the density of the standard normal distribution in D dimensions",
)
def gaussian_const(flow: Based, batch: Batch) -> Residual:
    r"""A standard normal base has the log-density $-\frac{D}{2} \log 2\pi - \frac12 \|z\|^2$ in $D$
    dimensions.
    """

    moved = normal_base(flow)
    if moved:
        raise Unsupported(moved)
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


def affine_flow(flow: Flow) -> str | None:
    """An unconditional flow whose map is promised to be affine, over a standard normal base on the
    whole space.
    """
    if not flow.promises.get("constant-jacobian"):
        return "it does not promise constant-jacobian"
    if flow.density_support.bounded or flow.context_shape is not None:
        return "its data do not fill the space, or depend on a context"
    if math.prod(flow.density_shape) > AFFINE_SIZE:
        return f"its events have more than {AFFINE_SIZE} entries"
    return normal_base(flow) or exact_log_det(flow)


@law(
    "density/affine-oracle",
    given="data",
    local=False,
    effort=5,
    applies=affine_flow,
    source="if Ax + b is standard normal then x is normal with mean -A^-1 b and covariance (A^T A)^-1",
)
def affine_oracle(flow: BijectionDensity, batch: Batch) -> Residual:
    r"""An affine flow is a multivariate normal:
    $\log p(x) = -\frac{D}{2} \log 2\pi - \frac12 \|Ax + b\|^2 + \log|\det A|$.

    $A$ and $b$ are found by mapping the origin and the unit vectors; no log-det and no base density
    is asked for.
    """

    moved = normal_base(flow)
    if moved:
        raise Unsupported(moved)
    density = np.asarray(flow.log_prob(batch.x, None), dtype=np.float64).reshape(len(batch.x))
    found = [multivariate_normal(flow, batch.x, which) for which in normalizing_calls(flow)]
    # User code does not say which call maps data to latents; the identity may hold with either.
    expected, reach = min(
        found, key=lambda one: float(np.nanmax(np.abs(density - one[0]), initial=0.0))
    )
    return Residual(
        density - expected,
        scale=4 + math.prod(flow.density_shape) * reach**2,
        decidable=finite_rows(expected),
        observed={"log p(x)": density, "multivariate normal": expected},
    )


def normalizing_calls(flow: Flow) -> list[str]:
    """The calls that may map data to latents: one, unless the subject says that it may be either."""
    calls = [flow.normalizing]
    if flow.promises.get("direction") == "either":
        calls.append("inverse" if flow.normalizing == "forward" else "forward")
    missing = [which for which in calls if getattr(flow, which) is None]
    if missing:
        raise Unsupported(
            f"it has no {missing[0]}, or which call maps data to latents is not known"
        )
    return calls


def multivariate_normal(flow: Flow, x: Array, which: str) -> tuple[Array, Array]:
    """The log-density of a normal that an affine call takes to a standard normal, and the size of
    its images.
    """
    call = getattr(flow, which)
    size = math.prod(flow.density_shape)
    corners = np.concatenate([np.zeros((1, size)), np.eye(size)]).reshape(-1, *flow.density_shape)
    images = np.asarray(call(corners, None).value, dtype=np.float64).reshape(size + 1, size)
    shift, matrix = images[0], (images[1:] - images[0]).T
    flat = x.reshape(len(x), size)
    # An affine map is affine in extended precision too.
    z = flat.astype(np.longdouble) @ matrix.T.astype(np.longdouble) + shift
    expected = (standard_normal(z) + log_abs_det(matrix[None])[0]).astype(np.float64)
    reach = (np.abs(flat) @ np.abs(matrix).T + np.abs(shift)).max(1)
    return expected, reach
