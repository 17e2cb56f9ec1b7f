"""Whether what a distribution tells of itself comes as a number for each entry of an event."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from flowref.laws.common.outcomes import attempt
from flowref.model import Array
from flowref.model.abilities import Density, Stating

# In the order in which they are told.
MOMENTS = ("mean", "variance", "entropy", "deviation", "mode", "covariance")
# What is said of each: as it should be, of another shape, no number, of copies not that of each.
MISSHAPEN, NO_NUMBER, NOT_OF_COPIES = 1, 2, 3
# Moments that are finite where the tails are light, and how far out, in spreads, and by how much a
# log-density is lower there then: no power of a distance that leaves a variance infinite.
FINITE, OUTSIDE, LOWER = ("mean", "variance", "deviation"), 1e3, 40.0


def numbers_told(flow: Stating) -> tuple[Array, Array]:
    """What a distribution tells, flat, and what is to be said of each moment, zeros where it is not
    known.
    """
    flat = np.asarray(flow.stated(), dtype=np.float64).reshape(-1)
    size = math.prod(flow.density_shape)
    plain, count = 4 * size + 1 + size * size, len(MOMENTS)
    flags = flat[plain:] if flat.size == plain + count else np.zeros(count)
    return flat[:plain], flags


class StatingDensity(Density, Stating, Protocol):
    """A density that tells its moments."""


def misstated(flow: StatingDensity, flags: Array, x: Array) -> str:
    """What is wrong with how the moments are told, in words; empty where nothing is.

    ``x``: points where the density is.
    """
    for name, flag in zip(MOMENTS, flags, strict=True):
        if flag == MISSHAPEN:
            one = "one number" if name == "entropy" else f"the shape {flow.density_shape}"
            return f"the {name} is not returned as {one}"
        if flag == NOT_OF_COPIES:
            return f"two copies in a batch do not return the {name} of each"
        if flag == NO_NUMBER and name in FINITE and light_tails(flow, x):
            return f"the {name} is returned as nan, and the tails are so light that it is finite"
    return ""


def light_tails(flow: Density, x: Array) -> bool:
    """Whether the density falls along every axis faster than powers of the distance that matter."""
    shape, flat = flow.density_shape, x.reshape(len(x), -1)
    middle, spread = np.median(flat, axis=0), np.maximum(np.ptp(flat, axis=0), 1e-6)
    steps = OUTSIDE * np.diag(spread)
    points = np.concatenate([middle[None], middle + steps, middle - steps])
    values, error = attempt(flow.log_prob, points.reshape(-1, *shape), None)
    if error:
        return False
    log_p = np.asarray(values, np.float64).reshape(len(points))
    return bool(np.isfinite(log_p[0]) and (log_p[1:] < log_p[0] - LOWER).all())
