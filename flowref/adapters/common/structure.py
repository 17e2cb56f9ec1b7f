"""Helpers for the structure of a library's classes: whose class it is, and masks of flattened events."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from flowref.model import OPPOSITE, Shape, Squeezing


def own_class(obj: Any, *packages: str) -> str:
    """The name of an object's class if one of the packages defines it, else "".

    Users' subclasses may treat entries differently, and can declare so by attributes.
    """
    kind = type(obj)
    return kind.__name__ if kind.__module__.partition(".")[0] in packages else ""


def on_axis(shape: Shape, kept: Iterable[int], axis: int = 0) -> tuple[float, ...]:
    """The mask of a flattened event with indices ``kept`` along one axis."""
    indices, inner = set(kept), math.prod(shape[axis:][1:])
    return tuple(
        float(index // inner % shape[axis] in indices) for index in range(math.prod(shape))
    )


def repeated_mask(mask: Any, shape: Shape) -> tuple[float, ...]:
    """The mask of a flattened event from a mask of its last axes."""
    values = [float(value) for value in mask.detach().double().reshape(-1).tolist()]
    return tuple(values * (math.prod(shape) // len(values)))


def inverted(squeezing: Squeezing | None) -> Squeezing | None:
    """The squeeze of an inverse, seen from the other call."""
    if squeezing is None:
        return None
    return replace(squeezing, call=OPPOSITE[squeezing.call])
