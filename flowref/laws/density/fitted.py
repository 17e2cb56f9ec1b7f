"""A normal density that fits samples, in straight coordinates or in such as are bent to them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from flowref.laws.density.bent import Bent, bent
from flowref.laws.density.draws import Draws, Frame, SampledDensity, frame
from flowref.model import Array


@dataclass(frozen=True)
class Fitted:
    """A density r that is standard normal in coordinates that samples are about normal in; ``within``: the
    box of these samples.
    """

    within: Frame
    bend: Bent | None

    def points(self, y: Array) -> Array:
        """Draws of r, of standard normal numbers."""
        return (self.bend or self.within).outward(y)

    def log_density(self, flat: Array) -> Array:
        """log r, ``(rows,)``."""
        if self.bend is None:
            return normal(self.within.inward(flat)) - self.within.log_volume
        at, log_det = self.bend.inward(flat)
        return normal(at) + log_det


def fitted(flow: SampledDensity, samples: Draws, bending: bool = False) -> Fitted:
    """The density that fits samples. Raises `Undecidable` where they do not fill the space."""
    within = frame(flow, samples)
    return Fitted(within, bent(samples.flat) if bending else None)


def normal(y: Array) -> Array:
    """The standard normal log-density, ``(rows,)``."""
    return np.asarray(-0.5 * (y**2).sum(1) - 0.5 * y.shape[1] * math.log(2 * math.pi))
