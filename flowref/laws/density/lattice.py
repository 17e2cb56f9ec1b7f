"""What samples that are whole numbers are held against: masses at whole numbers, of which all add up to 1."""

from __future__ import annotations

import math

import numpy as np

from flowref.model import Array

# The least and the greatest number of each entry.
Ends = tuple[Array, Array]


def log_masses(x: Array, center: Array, spread: Array, half_width: float, ends: Ends) -> Array:
    """Logarithms of a product of normals at whole numbers, cut off and made to add up to one; -inf
    outside of what they reach. ``x``: ``(batch, entries)``; ``spread``: deviations, ``half_width``: in
    units of them.
    """
    total = np.zeros(len(x))
    for column, middle, deviation, low, high in zip(x.T, center, spread, *ends, strict=True):
        places, logs = _column(middle, deviation, half_width, low, high)
        found = np.searchsorted(places, column)
        found = np.minimum(found, len(places) - 1)
        total += np.where(places[found] == column, logs[found], -np.inf)
    return total


def draw_masses(
    rng: np.random.Generator,
    count: int,
    center: Array,
    spread: Array,
    half_width: float,
    ends: Ends,
) -> Array:
    """So many points of these masses, ``(count, entries)``."""
    columns = []
    for middle, deviation, low, high in zip(center, spread, *ends, strict=True):
        places, logs = _column(middle, deviation, half_width, low, high)
        columns.append(rng.choice(places, count, p=np.exp(logs)))
    return np.stack(columns, axis=1)


def _column(
    middle: float, deviation: float, half_width: float, least: float, greatest: float
) -> tuple[Array, Array]:
    """The whole numbers that one normal reaches, at least the nearest, and the logarithms of its masses."""
    reach = half_width * deviation
    low, high = math.ceil(max(middle - reach, least)), math.floor(min(middle + reach, greatest))
    nearest = float(np.clip(round(middle), least, greatest))
    places = np.arange(low, high + 1.0) if low <= high else np.array([nearest])
    logs = -0.5 * ((places - middle) / deviation) ** 2
    return places, np.asarray(logs - np.logaddexp.reduce(logs))
