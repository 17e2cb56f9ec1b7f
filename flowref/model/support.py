"""Supports: the sets that a map's inputs and outputs live in."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flowref.model.errors import SpecError

NAMED = {
    "real": (-math.inf, math.inf),
    "unit": (0.0, 1.0),
    "positive": (0.0, math.inf),
    "ordered": (-math.inf, math.inf),
    "simplex": (0.0, 1.0),
}


@dataclass(frozen=True)
class Support:
    """A product set: every coordinate in the open interval (low, high), or one of the joint sets.

    ``kind`` is "real", "unit", "positive", "ordered" (increasing along the last axis), "simplex"
    (positive, summing to one along the last axis) or "interval".
    """

    kind: str
    low: float
    high: float

    @classmethod
    def parse(cls, text: object) -> Support:
        """Read "real", "unit", "positive", "ordered", "simplex", "(-1,1)", a pair of numbers or a
        Support.

        Raises `SpecError` for anything else.
        """
        if isinstance(text, Support):
            return text
        if isinstance(text, str) and text in NAMED:
            return cls(text, *NAMED[text])
        try:
            value: Any = (
                ast.literal_eval(text.replace("inf", "1e999")) if isinstance(text, str) else text
            )
            low, high = (float(end) for end in value)
        except (ValueError, SyntaxError, TypeError):
            raise SpecError(
                f"a support was given as {text!r}; expected one of {', '.join(NAMED)}, or an "
                "interval such as (-1,1)"
            ) from None
        if not low < high:
            raise SpecError(
                f"the interval {text!r} is empty; give it as (low,high) with low < high"
            )
        return cls("interval", low, high)

    @property
    def bounded(self) -> bool:
        """Whether any end is finite."""
        return math.isfinite(self.low) or math.isfinite(self.high)

    def holds(self, x: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """Whether each point of ``x`` ``(batch, *event)`` lies strictly inside. Shape ``(batch,)``."""
        flat = x.reshape(len(x), -1)
        inside: Any = (
            np.isfinite(flat).all(1) & (flat > self.low).all(1) & (flat < self.high).all(1)
        )
        if self.kind == "ordered":
            inside &= (np.diff(x, axis=-1) > 0).reshape(len(x), -1).all(1)
        if self.kind == "simplex":
            inside &= (np.abs(x.sum(-1) - 1) < 1e-6).reshape(len(x), -1).all(1)
        return np.asarray(inside)

    def __str__(self) -> str:
        return f"({self.low:g},{self.high:g})" if self.kind == "interval" else self.kind


REAL = Support.parse("real")


def draw(
    support: Support, shape: tuple[int, ...], rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Ordinary points of a support: standard normal on the line, uniform and away from the ends
    where bounded.

    ``shape`` is ``(batch, *event)``; joint sets act along the last axis.
    """
    if support.kind == "ordered":
        return np.sort(rng.standard_normal(shape), axis=-1)
    if support.kind == "simplex":
        weights = rng.exponential(size=shape)
        return np.asarray(weights / weights.sum(-1, keepdims=True))
    low, high = support.low, support.high
    if math.isfinite(low) and math.isfinite(high):
        return low + (high - low) * (0.02 + 0.96 * rng.random(shape))
    if math.isfinite(low):
        return low + 0.1 + rng.exponential(size=shape)
    if math.isfinite(high):
        return high - 0.1 - rng.exponential(size=shape)
    return rng.standard_normal(shape)
