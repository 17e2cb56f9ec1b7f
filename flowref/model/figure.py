"""Numbers for a picture of a violation: a plain value, drawn by whoever shows a report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

# Kinds of pictures, each with the names of its series.
SCALE = "error against input scale"  # scale, error, allowed
DENSITY = "density"  # low, high (of both axes, or of one), density (row by row), integral
PIT = "probability integral transform"  # counts (per bin, of equal widths on [0, 1])
JACOBIAN = "jacobian"  # reported, true (row by row), columns
COURSE = "running statistics"  # recorded, expected
DIGITS = 6


@dataclass(frozen=True)
class Figure:
    """Named series of numbers, of six digits each. ``kind`` says what they are, ``note`` which of
    several things is shown, in words.
    """

    kind: str
    series: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    note: str = ""

    def of(self, name: str) -> tuple[float, ...]:
        """A series; none where the figure lacks it."""
        return tuple(self.series.get(name, ()))


def figure(kind: str, note: str = "", **series: Iterable[float]) -> Figure:
    """A figure of any numbers, rounded to what a picture needs.

    >>> figure(PIT, counts=[1 / 3, float("nan")]).series
    {'counts': (0.333333, nan)}
    """
    rounded = {name: tuple(map(short, values)) for name, values in series.items()}
    return Figure(kind, rounded, note)


def short(value: float) -> float:
    """A number to six digits."""
    return float(f"{float(value):.{DIGITS}g}") if math.isfinite(value) else float(value)
