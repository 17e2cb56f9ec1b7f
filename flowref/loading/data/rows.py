"""Rows: a number of points of one shape, read by row number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from flowref.model import Array, DataError, Shape

# Kinds of dtypes accepted as points: bool, int, unsigned, float.
REAL_KINDS = "fiub"


@dataclass(frozen=True)
class Rows:
    """``count`` points of ``shape``.

    ``read(numbers)`` returns rows ``(len(numbers), *shape)`` by ascending numbers; ``context``: the rows of
    their contexts, or None.
    """

    name: str
    count: int
    shape: Shape
    read: Callable[[Array], Any]
    context: Rows | None = None

    def __post_init__(self) -> None:
        if not self.count:
            raise DataError(f"{self.name} has no rows; give at least one point")
        if self.context is not None and self.context.count != self.count:
            raise DataError(
                f"{self.name} has {self.count} points and {self.context.count} contexts; give one "
                "context for each point"
            )

    def take(self, numbers: Array) -> Array:
        """Rows by ascending numbers, as float64 of shape ``(len(numbers), *shape)``."""
        return np.asarray(self.read(numbers), dtype=np.float64).reshape(len(numbers), *self.shape)


def of_array(name: str, array: Any, context: Rows | None = None) -> Rows:
    """The rows of an array, which may be memory-mapped."""
    kind = np.dtype(array.dtype)
    if kind.kind not in REAL_KINDS:
        raise DataError(f"{name} holds {kind}; expected real numbers, as float32 or float64")
    if not array.ndim:
        raise DataError(f"{name} is one number; expected an array of points, a row each")
    return Rows(name, len(array), tuple(array.shape[1:]), lambda rows: array[rows], context)
