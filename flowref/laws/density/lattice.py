"""What samples that are whole numbers are held against: masses at whole numbers, of which all add up to 1."""

from __future__ import annotations

import math

import numpy as np

from flowref.model import Array


def log_masses(x: Array, center: Array, spread: Array, half_width: float) -> Array:
    """Logarithms of a product of normals at whole numbers, cut off and made to add up to one; -inf
    outside of what they reach. ``x``: ``(batch, entries)``; ``spread``: deviations, ``half_width``: in
    units of them.
    """
    total = np.zeros(len(x))
    for column, middle, deviation in zip(x.T, center, spread, strict=True):
        places, logs = _column(middle, deviation, half_width)
        found = np.searchsorted(places, column)
        found = np.minimum(found, len(places) - 1)
        total += np.where(places[found] == column, logs[found], -np.inf)
    return total


def draw_masses(
    rng: np.random.Generator, count: int, center: Array, spread: Array, half_width: float
) -> Array:
    """So many points of these masses, ``(count, entries)``."""
    columns = []
    for middle, deviation in zip(center, spread, strict=True):
        places, logs = _column(middle, deviation, half_width)
        columns.append(rng.choice(places, count, p=np.exp(logs)))
    return np.stack(columns, axis=1)


def _column(middle: float, deviation: float, half_width: float) -> tuple[Array, Array]:
    """The whole numbers that one normal reaches, at least the nearest, and the logarithms of its masses."""
    reach = half_width * deviation
    low, high = math.ceil(middle - reach), math.floor(middle + reach)
    places = np.arange(low, high + 1.0) if low <= high else np.array([float(round(middle))])
    logs = -0.5 * ((places - middle) / deviation) ** 2
    return places, np.asarray(logs - np.logaddexp.reduce(logs))
