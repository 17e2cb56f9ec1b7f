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


@dataclass(frozen=True)
class Carried:
    """Reparameterized samples, whether they carry a graph, and of each tensor that an object holds its
    name, the samples from the same noise where it alone is off, and the largest gradient for it.
    """

    value: Array
    graph: bool
    names: tuple[str, ...]
    moved: tuple[Array, ...]
    largest: tuple[float, ...]


@dataclass(frozen=True)
class Carry(Step[Carried]):
    """Reparameterized samples of an object that holds no modules while all floating tensors that it
    holds require a gradient; and again, from the same noise, with each of these off by a small share.
    """

    n: int
    share: float


@dataclass(frozen=True, eq=False)
class Pathwise(Step[Drawn]):
    """Reparameterized samples, and autograd's derivative of the sum of weights times samples in the
    direction in which `Nudge` of the same seed moves. ``alone``: the samples alone; ``some``: the
    derivative with respect to small parameters does, where it is not zero.
    """

    n: int
    weights: Any
    seed: int
    alone: bool = False
    some: bool = False
