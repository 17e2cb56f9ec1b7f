"""Steps of a batch normalizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from flowref.model.call import How
from flowref.model.steps.life import Step

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Roles(Step[Mapping[str, Any]]):
    """The array or number of each role of a batch normalizer (see `Normalizer`); None if absent."""


@dataclass(frozen=True, eq=False)
class Assign(Step[None]):
    """Set a parameter, buffer or constant of a batch normalizer in place."""

    role: str
    value: Any


@dataclass(frozen=True, eq=False)
class Normalize(Step[Array]):
    """The value of the call that normalizes, in the current mode."""

    x: Any
    how: How = "plain"


@dataclass(frozen=True)
class Pulled:
    """The value of the normalizing call and its vector-Jacobian product; None if there is none."""

    value: Array
    x: Array | None
    weight: Array | None
    bias: Array | None


@dataclass(frozen=True, eq=False)
class Pullback(Step[Pulled]):
    """The normalizing call, and its vector-Jacobian product with a cotangent."""

    x: Any
    cotangent: Any
