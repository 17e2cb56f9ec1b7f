r"""Lines that values go through, $y = a x + l$, and what the lines of a normalizer show of it.

A batch normalizer maps each channel of a batch by one line, $y = w\,(x - \mu) / \sqrt{v + \epsilon} + b$: lines at
batches of huge and of tiny spread show w, b, $\epsilon$ and n - ``freedom`` in the variance (`scale`); those tell
the statistics that any other line was made with (`used`), and how much of a batch entered them (`update_fraction`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from flowref.model.call import Array

# Spreads of batches: so wide that no eps counts, and so narrow that nothing else does.
WIDE, NARROW = 1e4, 1e-6


class LineFit(NamedTuple):
    """Slope and level of each line, and how far the values are from it, ``(lines,)``."""

    slope: Array
    level: Array
    off: Array


class Scale(NamedTuple):
    """Weight and bias of each channel, the constant eps (nan where it is not seen), and n - ``freedom`` in the
    variance: as train mode shows them.
    """

    weight: Array
    bias: Array
    eps: float
    freedom: int


class Used(NamedTuple):
    """The mean that a line takes away, and what it divides by squared: the variance with eps."""

    mean: Array
    inside: Array


def by_channel(x: Array, channel: Sequence[int] = (0,)) -> Array:
    """The values of each channel, ``(channels, values)``, in extended precision; ``channel``: its axes in an event."""
    front = [axis + 1 for axis in channel]
    moved = np.moveaxis(np.asarray(x), front, range(len(front)))
    count = int(np.prod(moved.shape[: len(front)]))
    return moved.reshape(count, -1).astype(np.longdouble)


def by_entry(x: Array) -> Array:
    """The values of each entry of an event, ``(entries, batch)``."""
    return np.asarray(x, dtype=np.float64).reshape(len(x), -1).T


def fit_lines(points: Array, values: Array, free: Array | None = None) -> LineFit:
    """The lines that come nearest to what rows of points were mapped to, ``(lines, values)`` both; ``free``: which
    of them count, where not all do.
    """
    free = np.ones(np.shape(points), dtype=bool) if free is None else free
    count = np.maximum(free.sum(1, keepdims=True), 1)
    center, middle = ((each * free).sum(1, keepdims=True) / count for each in (points, values))
    moved = (points - center) * free
    with np.errstate(all="ignore"):
        slope = (moved * (values - middle)).sum(1) / (moved**2).sum(1)
        off = np.abs((values - middle - slope[:, None] * moved) * free).max(1)
        level = middle[:, 0] - slope * center[:, 0]
    return LineFit(*(np.asarray(each, dtype=np.float64) for each in (slope, level, off)))


def used(slope: Array, level: Array, scale: Scale) -> Used:
    """The statistics of a line, given weight and bias; nan where a weight is zero."""
    with np.errstate(all="ignore"):
        return Used((scale.bias - level) / slope, (scale.weight / slope) ** 2)


def update_fraction(own: Array, before: Array, after: Array, size: Array | float = 1.0) -> float:
    """The fraction with which the mean of a batch entered the running one, by least squares over
    the channels; ``size``: that of the numbers of each.
    """
    way, moved = (own - before) / size, (after - before) / size
    with np.errstate(all="ignore"):
        return float((way * moved).sum() / (way**2).sum())


def scale(train: Callable[[Array], Array], z: Array, channel: Sequence[int] = (0,)) -> Scale:
    """Measured by a call in train mode, on batches of huge and of tiny spread. ``z``: a standard normal batch."""
    batches = WIDE * z, WIDE * z[:2], NARROW * z
    wide, few, narrow = (by_channel(x, channel) for x in batches)
    big, pair, tiny = (
        fit_lines(rows, by_channel(train(x), channel))
        for x, rows in zip(batches, (wide, few, narrow), strict=True)
    )
    with np.errstate(all="ignore"):
        # Whether a batch of n is normalized with n - 1: the fewer, the more that shows.
        weights = [big.slope * wide.std(1, ddof=freedom) for freedom in (0, 1)]
        gaps = [
            np.abs(pair.slope * few.std(1, ddof=freedom) - weights[freedom]).max()
            for freedom in (0, 1)
        ]
        freedom = int(gaps[1] < gaps[0])
        weight, bias = weights[freedom], big.level + big.slope * wide.mean(1)
        inside = (weight / tiny.slope) ** 2 - narrow.var(1, ddof=freedom)
    seen = np.asarray(inside, dtype=np.float64)
    eps = float(seen[np.abs(weight).argmax()])
    weight, bias = (np.asarray(one, dtype=np.float64) for one in (weight, bias))
    return Scale(weight, bias, eps, freedom)
