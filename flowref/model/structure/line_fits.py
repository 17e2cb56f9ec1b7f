r"""Lines $y = a x + l$, and the constants of a normalizer that they determine.

A batch normalizer maps each channel of a batch by $y = w\,(x - \mu) / \sqrt{v + \epsilon} + b$. Batches of
huge and tiny spread determine w, b, $\epsilon$ and n - ``freedom`` in the variance (`measure_constants`); these give
the statistics behind any other line (`line_statistics`), and how far a batch entered them (`update_fraction`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from flowref.model.call import Array

# Spreads of batches: so large that eps is negligible, and so small that only eps counts.
WIDE, NARROW = 1e4, 1e-6


class LineFit(NamedTuple):
    """Slope and level of each line, and the largest deviation of values, ``(lines,)``."""

    slope: Array
    level: Array
    off: Array


class Scale(NamedTuple):
    """Weight and bias of each channel, eps (NaN if not visible), and n - ``freedom`` in the variance, in
    train mode.
    """

    weight: Array
    bias: Array
    eps: float
    freedom: int


class LineStatistics(NamedTuple):
    """The mean and the variance plus eps behind a line."""

    mean: Array
    inside: Array


def by_channel(x: Array, channel: Sequence[int] = (0,)) -> Array:
    """``x (n, *event)`` as ``(channels, values)`` in extended precision; ``channel``: the channel axes of
    an event.
    """
    front = [axis + 1 for axis in channel]
    moved = np.moveaxis(np.asarray(x), front, range(len(front)))
    count = int(np.prod(moved.shape[: len(front)]))
    return moved.reshape(count, -1).astype(np.longdouble)


def by_entry(x: Array) -> Array:
    """``x (n, *event)`` as ``(entries, n)``."""
    return np.asarray(x, dtype=np.float64).reshape(len(x), -1).T


def fit_lines(points: Array, values: Array, free: Array | None = None) -> LineFit:
    """Least-squares lines through ``points -> values``, both ``(lines, values)``; ``free``: a mask of those
    that count.
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


def line_statistics(slope: Array, level: Array, scale: Scale) -> LineStatistics:
    """The statistics of lines with ``slope`` and ``level (channels,)``, given weight and bias; NaN if a
    weight is zero.
    """
    with np.errstate(all="ignore"):
        return LineStatistics((scale.bias - level) / slope, (scale.weight / slope) ** 2)


def update_fraction(own: Array, before: Array, after: Array, size: Array | float = 1.0) -> float:
    """The least-squares fraction, over channels, with which a batch mean entered the running mean; means
    ``(channels,)`` of the batch, and of the statistics before and after; ``size``: the magnitude of each
    channel.
    """
    way, moved = (own - before) / size, (after - before) / size
    with np.errstate(all="ignore"):
        return float((way * moved).sum() / (way**2).sum())


def measure_constants(
    train: Callable[[Array], Array], z: Array, channel: Sequence[int] = (0,)
) -> Scale:
    """Constants ``(channels,)`` measured in train mode on batches of huge and tiny spread; ``z (n,
    *event)``: a standard normal batch.
    """
    batches = WIDE * z, WIDE * z[:2], NARROW * z
    wide, few, narrow = (by_channel(x, channel) for x in batches)
    big, pair, tiny = (
        fit_lines(rows, by_channel(train(x), channel))
        for x, rows in zip(batches, (wide, few, narrow), strict=True)
    )
    with np.errstate(all="ignore"):
        # The divisor of the variance, n or n - 1, shows most in small batches.
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
