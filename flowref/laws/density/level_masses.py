"""The mass of a bound of whole numbers between two ends, as of images that are dequantized."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from flowref.laws.common.outcomes import attempt
from flowref.model import Array
from flowref.model.abilities import Density, Sampler, offers

# Samples that show which values there are; how many of these are too many; and how much of a proposal
# is of all alike.
SAMPLES, VALUES, ALIKE = 4_000, 4_096, 0.5


class Levels(NamedTuple):
    """How often each whole number is proposed for each entry, ``(entries, values)``, from the least on."""

    least: float
    shares: Array

    def draw(self, rng: np.random.Generator, count: int) -> tuple[Array, Array]:
        """So many points, and the logarithms of their shares."""
        columns = [rng.choice(len(one), count, p=one) for one in self.shares]
        logs = sum(np.log(one[column]) for one, column in zip(self.shares, columns, strict=True))
        return self.least + np.stack(columns, axis=1).astype(np.float64), np.asarray(logs)


def levels(flow: Density, seed: int) -> Levels | None:
    """The whole numbers that samples take between the ends of a support; None where they take others."""
    support = flow.density_support
    if not offers(flow, Sampler) or support.coordinates or support.kind in ("simplex", "ordered"):
        return None
    low, high = (float(end) for end in support.ends)
    if not math.isfinite(high - low):
        return None
    drawn, _ = attempt(flow.sample, SAMPLES, seed, None)
    size = math.prod(flow.density_shape)
    if drawn is None or np.size(drawn) != SAMPLES * size:
        return None
    flat = np.asarray(drawn, dtype=np.float64).reshape(SAMPLES, size)
    if not (flat == np.round(flat)).all() or flat.min() < low or flat.max() > high:
        return None
    least, greatest = math.ceil(low), max(math.ceil(high) - 1, int(flat.max()))
    count = greatest - least + 1
    if not 2 <= count <= VALUES:
        return None
    seen = np.stack(
        [np.bincount((column - least).astype(int), minlength=count) for column in flat.T]
    )
    return Levels(float(least), ALIKE / count + (1 - ALIKE) * seen / SAMPLES)
