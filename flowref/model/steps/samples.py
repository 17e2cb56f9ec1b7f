"""Samples that carry gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from flowref.model.steps.life import Step

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Drawn:
    """Samples, whether they carry a graph, and their derivative along the direction of `Pathwise`."""

    value: Array
    graph: bool
    slope: float = 0.0


@dataclass(frozen=True)
class Draw(Step[Drawn]):
    """Samples with gradients recorded."""

    n: int


@dataclass(frozen=True)
class Carried:
    """Reparameterized samples and whether they carry a graph; for each tensor of the object its name, the
    samples from the same noise with it perturbed, and its largest gradient.
    """

    value: Array
    graph: bool
    names: tuple[str, ...]
    moved: tuple[Array, ...]
    largest: tuple[float, ...]


@dataclass(frozen=True)
class Carry(Step[Carried]):
    """Reparameterized samples of an object without modules, with gradients of all its floating tensors; and
    again from the same noise with each of them slightly perturbed.
    """

    n: int
    share: float


@dataclass(frozen=True, eq=False)
class Pathwise(Step[Drawn]):
    """Reparameterized samples, and autograd's derivative of sum(weights * samples) along the direction of
    the `Nudge` of the same seed. ``alone``: samples only; ``some``: restrict to small parameters whose
    derivative is not zero.
    """

    n: int
    weights: Any
    seed: int
    alone: bool = False
    some: bool = False
