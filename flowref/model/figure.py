"""Numbers for plots of violations: plain values, drawn by reports."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

# Kinds of plots, each with the names of its series.
SCALE = "error against input scale"  # scale, error, allowed, own (the scale of the counterexample);
# And got, expected: the two numbers that a law compares, named in the note.
DENSITY = "density"  # low, high (of both axes, or of one), density (row by row), integral; sampled: the height of bars on one
# axis, points on two
PIT = "probability integral transform"  # counts (per bin, of equal widths on [0, 1])
JACOBIAN = "jacobian"  # reported, true (row by row), columns
COURSE = "running statistics"  # recorded, expected
DIGITS = 6


@dataclass(frozen=True)
class Figure:
    """Named series of numbers with at most six digits. ``kind``: the kind of plot; ``note``: which of
    several quantities is shown.
    """

    kind: str
    series: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    note: str = ""

    def of(self, name: str) -> tuple[float, ...]:
        """A series; empty if the figure has none of that name."""
        return tuple(self.series.get(name, ()))


def figure(kind: str, note: str = "", digits: int = DIGITS, **series: Iterable[float]) -> Figure:
    """A figure of any numbers, rounded for plotting.

    >>> figure(PIT, counts=[1 / 3, float("nan")]).series
    {'counts': (0.333333, nan)}
    """
    return Figure(kind, rounded_series(series, digits), note)


def rounded_series(
    series: Mapping[str, Iterable[float]], digits: int = DIGITS
) -> dict[str, tuple[float, ...]]:
    """Series rounded to ``digits`` significant digits."""
    return {
        name: tuple(short(value, digits) for value in values) for name, values in series.items()
    }


def short(value: float, digits: int = DIGITS) -> float:
    """A number to a few digits."""
    if math.isnan(value):
        return math.nan  # one object, so that equal figures compare equal
    return float(f"{float(value):.{digits}g}")
