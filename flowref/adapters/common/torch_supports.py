"""Supports of constraints of torch.distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flowref.model import REAL, Support


def interval(low: float, high: float) -> Support:
    """An interval, by its name if it has one."""
    named = {(-math.inf, math.inf): "real", (0.0, 1.0): "unit", (0.0, math.inf): "positive"}
    return Support.parse(named.get((low, high), (low, high)))


def constraint_support(constraint: Any, whole: bool = True) -> Support | None:
    """The support of a constraint, or None.

    A product of different intervals is None, or their intersection with ``whole`` False, where the map is
    defined.
    """
    kind = type(constraint).__name__.lstrip("_")
    if kind == "IndependentConstraint":
        return constraint_support(constraint.base_constraint, whole)
    if kind in ("Real", "RealVector"):
        return REAL
    if kind == "Simplex":
        return Support.parse("simplex")
    if kind == "OrderedVector":
        return Support.parse("ordered")
    if kind in ("Cat", "Stack"):
        return _common([constraint_support(one, whole) for one in constraint.cseq], whole)
    lows = _constraint_ends(constraint, "lower_bound", -math.inf)
    highs = _constraint_ends(constraint, "upper_bound", math.inf)
    if kind.startswith("Integer") or (lows, highs) == ([-math.inf], [math.inf]):
        return None
    if whole and (len(set(lows)) > 1 or len(set(highs)) > 1):
        return None
    return interval(max(lows), min(highs)) if max(lows) < min(highs) else None


def declared_support(constraint: Any) -> Support | None:
    """The declared set, with an interval per coordinate if they differ; None for others (integers,
    matrices).
    """
    kind = type(constraint).__name__.lstrip("_")
    if kind == "IndependentConstraint":
        return declared_support(constraint.base_constraint)
    if kind in ("Cat", "Stack"):
        return _concatenated(constraint, kind)
    lows = _constraint_ends(constraint, "lower_bound", -math.inf)
    highs = _constraint_ends(constraint, "upper_bound", math.inf)
    if kind.startswith("Integer") or max(len(lows), len(highs)) <= 1:
        return constraint_support(constraint)
    count = max(len(lows), len(highs))
    lows, highs = lows * (count // len(lows)), highs * (count // len(highs))
    if not len(lows) == len(highs) == count or any(
        low >= high for low, high in zip(lows, highs, strict=True)
    ):
        return None
    return Support.product([interval(low, high) for low, high in zip(lows, highs, strict=True)])


def _concatenated(constraint: Any, kind: str) -> Support | None:
    if constraint.dim not in (-1, 0):
        return None
    lengths = getattr(constraint, "lengths", None) if kind == "Cat" else None
    coordinates: list[Support] = []
    for one, length in zip(constraint.cseq, lengths or [1] * len(constraint.cseq), strict=True):
        part = declared_support(one)
        if part is None or part.kind in ("simplex", "ordered"):
            return None
        coordinates += part.coordinates or (part,) * int(length)
    return Support.product(coordinates) if coordinates else None


def _constraint_ends(constraint: Any, name: str, default: float) -> list[float]:
    value = getattr(constraint, name, default)
    ends = value.detach().reshape(-1).tolist() if hasattr(value, "detach") else [value]
    return [float(end) for end in ends]


def _common(supports: Sequence[Support | None], whole: bool) -> Support | None:
    """The common support, or with ``whole`` False the intersection."""
    sets = [one for one in supports if one is not None]
    if len(sets) < len(supports) or not sets:
        return None
    if all(one == sets[0] for one in sets):
        return sets[0]
    low, high = max(one.low for one in sets), min(one.high for one in sets)
    if whole or low >= high or {"simplex", "ordered"} & {one.kind for one in sets}:
        return None
    return interval(low, high)
