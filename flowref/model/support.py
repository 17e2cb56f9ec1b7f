"""Supports: the sets that a map's inputs and outputs live in."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
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
    "sphere": (-1.0, 1.0),
    "axes": (-1.0, 1.0),
    "so3": (-1.0, 1.0),
    "torus": (-math.pi, math.pi),
    "circle": (-math.pi, math.pi),
    "centred": (-math.inf, math.inf),
    "subspace": (-math.inf, math.inf),
}
# Other names of sets, in small letters.
ALIASES = {
    **dict.fromkeys(("s1", "s^1"), "circle"),
    **dict.fromkeys(
        ("s2", "s^2", "s3", "s^3", "hypersphere", "unit sphere", "unit_sphere"), "sphere"
    ),
    **dict.fromkeys(("so(3)", "rotations"), "so3"),
    **dict.fromkeys(("t2", "t^2"), "torus"),
}
# Sets without volume, or periodic ones, which are tested in coordinates (see `manifold`).
CURVED = ("sphere", "axes", "so3", "torus", "circle", "centred", "subspace")
# Sets that constrain several coordinates jointly.
JOINT = ("ordered", "simplex", "corner", *CURVED)


@dataclass(frozen=True)
class Support:
    """A product set: every coordinate in the open interval (low, high), or one of the joint sets.

    ``kind`` is "real", "unit", "positive", "ordered" (increasing along the last axis), "simplex" (positive,
    summing to one along the last axis), "corner" (a simplex without its last coordinate: positive, summing
    to less than one), "sphere" (unit vectors along the last axis), "axes" (the same, of which opposite ones
    are one), "so3" (rotation matrices), "torus" or "circle" (angles), "centred" (sum zero along the first
    axis of an event), "subspace" (that of its samples), "interval" or "product": each coordinate of the
    flattened event in its own interval, those of ``coordinates``; (low, high) then holds all.
    """

    kind: str
    low: float
    high: float
    coordinates: tuple[Support, ...] = ()

    @classmethod
    def parse(cls, text: object) -> Support:
        """Read a name of `NAMED`, "(-1,1)", a pair of numbers, a Support, or one of these for each
        coordinate, separated by commas or in a tuple.

        Raises `SpecError` for anything else.
        """
        if isinstance(text, Support):
            return text
        text = ALIASES.get(text.lower(), text) if isinstance(text, str) else text
        if isinstance(text, str) and text in NAMED:
            return cls(text, *NAMED[text])
        parts = _split_outside_brackets(text) if isinstance(text, str) else text
        if isinstance(parts, tuple | list) and any(not _is_number(part) for part in parts):
            return cls.product([cls.parse(part) for part in parts])
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

    @classmethod
    def product(cls, coordinates: Sequence[Support]) -> Support:
        """A product of intervals, one per coordinate; a single interval if all are equal."""
        if len(set(coordinates)) == 1:
            return coordinates[0]
        if any(one.kind in JOINT for one in coordinates):
            joint = next(one.kind for one in coordinates if one.kind in JOINT)
            raise SpecError(f"a coordinate cannot be {joint} alone")
        low, high = min(one.low for one in coordinates), max(one.high for one in coordinates)
        return cls("product", low, high, tuple(coordinates))

    @property
    def ends(self) -> tuple[Any, Any]:
        """The lower and the upper end: numbers, or arrays with one per coordinate."""
        if not self.coordinates:
            return self.low, self.high
        lows, highs = ([getattr(one, end) for one in self.coordinates] for end in ("low", "high"))
        return np.array(lows), np.array(highs)

    @property
    def joint(self) -> bool:
        """Whether coordinates are constrained jointly, so that a step along one may leave the set."""
        return self.kind in JOINT

    @property
    def has_end(self) -> bool:
        """Whether any end is finite, as for (0, inf)."""
        if self.coordinates:
            return any(one.has_end for one in self.coordinates)
        return math.isfinite(self.low) or math.isfinite(self.high)

    def holds(self, x: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """Whether each point of ``x`` ``(batch, *event)`` lies strictly inside. Shape ``(batch,)``."""
        if not len(x):
            return np.zeros(0, dtype=bool)
        flat, (low, high) = x.reshape(len(x), -1), self.ends
        inside: Any = np.isfinite(flat).all(1) & (flat > low).all(1) & (flat < high).all(1)
        if self.kind == "ordered":
            inside &= (np.diff(x, axis=-1) > 0).reshape(len(x), -1).all(1)
        if self.kind == "corner":
            inside &= (x.sum(-1) < 1).reshape(len(x), -1).all(1)
        if self.kind == "simplex":
            inside &= (np.abs(x.sum(-1) - 1) < 1e-6).reshape(len(x), -1).all(1)
        return np.asarray(inside)

    def __str__(self) -> str:
        if self.coordinates:
            return ",".join(map(str, self.coordinates))
        return f"({self.low:g},{self.high:g})" if self.kind == "interval" else self.kind


def _split_outside_brackets(text: str) -> list[str]:
    parts, depth = [""], 0
    for sign in text:
        depth += (sign in "([") - (sign in ")]")
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts] if len(parts) > 1 else []


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or (
        isinstance(value, str) and value.strip(" +-.e0123456789inf") == ""
    )


REAL = Support.parse("real")
# A simplex without its last coordinate.
CORNER = Support("corner", 0.0, 1.0)


def draw_points(
    support: Support, shape: tuple[int, ...], rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Ordinary points ``(batch, *event)`` of a support: standard normal on the line; uniform and away from
    the ends if bounded.

    ``shape`` is ``(batch, *event)``; joint sets act along the last axis.
    """
    if support.coordinates:
        flat = [draw_points(one, (shape[0],), rng) for one in support.coordinates]
        return np.stack(flat, axis=-1).reshape(shape)
    if support.kind == "ordered":
        return np.sort(rng.standard_normal(shape), axis=-1)
    if support.kind in ("simplex", "corner"):
        last = int(support.kind == "corner")
        weights = rng.exponential(size=(*shape[:-1], shape[-1] + last))
        weights /= weights.sum(-1, keepdims=True)
        return np.asarray(weights[..., : shape[-1]])
    if support.kind in CURVED:
        return _manifold_points(support.kind, shape, rng)
    low, high = support.low, support.high
    if math.isfinite(low) and math.isfinite(high):
        return low + (high - low) * (0.02 + 0.96 * rng.random(shape))
    if math.isfinite(low):
        return low + 0.1 + rng.exponential(size=shape)
    if math.isfinite(high):
        return high - 0.1 - rng.exponential(size=shape)
    return rng.standard_normal(shape)


def _manifold_points(
    kind: str, shape: tuple[int, ...], rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Uniform points ``(batch, *event)`` of a manifold; normal points of a subspace."""
    if kind in ("torus", "circle"):
        return rng.uniform(-math.pi, math.pi, shape)
    noise = rng.standard_normal(shape)
    if kind == "centred":
        return np.asarray(noise - noise.mean(1, keepdims=True))
    if kind in ("sphere", "axes"):
        return np.asarray(noise / np.linalg.norm(noise, axis=-1, keepdims=True))
    if kind == "so3":
        left, _, right = np.linalg.svd(noise)
        left[..., 0] *= np.linalg.det(left @ right)[..., None]
        return np.asarray(left @ right)
    return noise
