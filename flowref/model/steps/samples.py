"""Samples that carry gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from flowref.model.steps.life import Step

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Drawn:
    """Samples, whether they carry a graph, and the derivative along a direction of `Pathwise`."""

    value: Array
    graph: bool
    slope: float = 0.0


@dataclass(frozen=True)
class Draw(Step[Drawn]):
    """Samples, with gradients recorded."""

    n: int


@dataclass(frozen=True, eq=False)
class Pathwise(Step[Drawn]):
    """Reparameterized samples, and autograd's derivative of the sum of weights times samples in the
    direction in which `Nudge` of the same seed moves.
    """

    n: int
    weights: Any
    seed: int
