"""Points that objects are trained on, whatever framework they are written in."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flowref.model import Support, draw


def sample(support: Support, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Points of a set, skewed and with two modes in each coordinate."""
    if support.joint or support.kind == "product":
        return draw(support, shape, rng)
    rows = (shape[0], *[1] * (len(shape) - 1))
    second = rng.random(rows) < 0.35
    noise = rng.standard_normal(shape)
    real = np.where(second, 1.5 + 0.3 * noise, -2.0 + 0.8 * np.exp(0.5 * noise))
    low, high = support.low, support.high
    if math.isfinite(low) and math.isfinite(high):
        return low + (high - low) * (0.02 + 0.96 / (1 + np.exp(-real)))
    if math.isfinite(low):
        return low + np.log1p(np.exp(real)) + 1e-3
    if math.isfinite(high):
        return high - np.log1p(np.exp(real)) - 1e-3
    return real
