"""Simpler points: what a shrinker tries instead of a point, simplest first."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from flowref.model import Array, Support

# Coordinates that are tried as the only ones that are not zero, and those that are made simpler one
# at a time: the largest.
ALONE, SINGLES = 8, 24


def simpler_points(support: Support, point: Array) -> Iterator[Array]:
    """Batches of candidates in the support, each simpler than the point: all coordinates at once
    first, then one at a time. Each is ``(candidates, *point.shape)``, and may be empty.
    """
    yield _shaped(support, point, _together(point.reshape(-1)))
    yield _shaped(support, point, _one_at_a_time(point.reshape(-1)))


def _shaped(support: Support, point: Array, rows: list[Array]) -> Array:
    """Candidates in the support, in the shape of the point and other than it."""
    flat = point.reshape(-1)
    rows = [row for row in rows if not np.array_equal(row, flat) and np.isfinite(row).all()]
    if not rows:
        return np.zeros((0, *point.shape))
    stacked = np.stack(rows).reshape(-1, *point.shape)
    return np.asarray(stacked[support.holds(stacked)])


def _together(flat: Array) -> list[Array]:
    """Zero, then one coordinate alone, then the point in rounder numbers."""
    alone = []
    for index in np.argsort(-np.abs(flat))[:ALONE]:
        single = np.zeros_like(flat)
        single[index] = rounded(flat[index], 1)
        alone.append(single)
    rounder = [np.ones_like(flat), np.full_like(flat, 0.5), np.round(flat), np.round(flat * 8) / 8]
    rounder += [np.array([rounded(value, digits) for value in flat]) for digits in (1, 2, 3)]
    return [np.zeros_like(flat), *alone, *rounder]


def _one_at_a_time(flat: Array) -> list[Array]:
    rows = []
    for index in np.argsort(-np.abs(flat), kind="stable")[:SINGLES]:
        for value in simpler_numbers(float(flat[index])):
            row = flat.copy()
            row[index] = value
            rows.append(row)
    return rows


def simpler_numbers(value: float) -> list[float]:
    """Simpler numbers near a number, simplest first.

    >>> simpler_numbers(2.34)
    [0.0, 1.0, -1.0, 2.0, 2.3]
    """
    options = [0.0, 1.0, -1.0, float(np.round(value)), float(np.round(value * 8) / 8)]
    options += [rounded(value, digits) for digits in (1, 2, 3)]
    return [
        option
        for option in dict.fromkeys(options)
        if option != value and cost(option) < cost(value)
    ]


def cost(value: float) -> tuple[int, int]:
    """How simple a number is: zero, plus or minus one, then by the length of its shortest decimal."""
    if value == 0:
        return 0, 0
    if abs(value) == 1:
        return 1, 0
    return 2, len(repr(value))


def rounded(value: float, digits: int) -> float:
    """A number to so many significant decimal digits.

    >>> rounded(-0.0123, 1)
    -0.01
    """
    return float(f"{value:.{digits}g}")
