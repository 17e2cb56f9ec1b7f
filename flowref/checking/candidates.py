"""Candidates for simpler points, simplest first."""

from __future__ import annotations

import math

import numpy as np

from flowref.model import Array, Support

# How many of the largest coordinates are tried as the only nonzero one, and simplified one at a time.
ALONE, SINGLES = 8, 24


def fewer_coordinates(support: Support, point: Array) -> Array:
    """Return points of the support with more zero coordinates: all, all but one, or one more than
    in ``point``. Shape ``(candidates, *point.shape)``; there may be none.
    """
    flat = point.reshape(-1)
    rows = [np.zeros_like(flat)]
    for index in _largest(flat)[:ALONE]:
        alone = np.zeros_like(flat)
        alone[index] = rounded_number(flat[index], 1)
        rows.append(alone)
    for index in _largest(flat)[:SINGLES]:
        without = flat.copy()
        without[index] = 0.0
        rows.append(without)
    most = np.count_nonzero(flat)
    return _rows_in_support(support, point, [row for row in rows if np.count_nonzero(row) < most])


def rounder_numbers(support: Support, point: Array) -> Array:
    """Return points of the support with rounder numbers in all coordinates or in one,
    ``(candidates, *point.shape)``.
    """
    flat = point.reshape(-1)
    rows = [
        flat + 0.0,
        np.ones_like(flat),
        np.full_like(flat, 0.5),
        np.round(flat),
        np.round(flat * 8) / 8,
    ]
    rows += [np.array([rounded_number(value, digits) for value in flat]) for digits in (1, 2, 3)]
    least = complexity(flat)
    rows = [row for row in rows if complexity(row) < least]
    for index in _largest(flat)[:SINGLES]:
        for value in simpler_numbers(float(flat[index])):
            row = flat.copy()
            row[index] = value
            rows.append(row)
    return _rows_in_support(support, point, rows)


def _largest(flat: Array) -> Array:
    order = np.argsort(-np.abs(flat), kind="stable")
    return np.asarray(order[: np.count_nonzero(flat)])


def _rows_in_support(support: Support, point: Array, rows: list[Array]) -> Array:
    rows = [row for row in rows if np.isfinite(row).all()]
    if not rows:
        return np.zeros((0, *point.shape))
    stacked = np.stack(rows).reshape(-1, *point.shape) + 0.0  # which makes -0 0
    return np.asarray(stacked[support.holds(stacked)])


def complexity(point: Array) -> tuple[int, int]:
    """How hard a point is to read: the number of nonzero coordinates, and the sum of their `cost`."""
    return int(np.count_nonzero(point)), sum(cost(float(value)) for value in point.reshape(-1))


def simpler_numbers(value: float) -> list[float]:
    """Simpler numbers near a number, simplest first.

    >>> simpler_numbers(2.34)
    [0.0, 1.0, -1.0, 2.0, 2.3]
    """
    options = [0.0, 1.0, -1.0, float(np.round(value)), float(np.round(value * 8) / 8)]
    options += [rounded_number(value, digits) for digits in (1, 2, 3)]
    return [
        option
        for option in dict.fromkeys(options)
        if option != value and cost(option) < cost(value)
    ]


def cost(value: float) -> int:
    """How hard a number is to read: zero, plus or minus one and -0, then the length of its shortest
    decimal.

    >>> cost(0.0), cost(-0.0), cost(-1.0), cost(0.5), cost(-0.25)
    (0, 1, 1, 3, 5)
    """
    if abs(value) in (0.0, 1.0):
        return int(abs(value) or math.copysign(1.0, value) < 0)
    return len(repr(value))


def rounded_number(value: float, digits: int) -> float:
    """Round a number to ``digits`` significant decimal digits.

    >>> rounded_number(-0.0123, 1)
    -0.01
    """
    return float(f"{value:.{digits}g}")
