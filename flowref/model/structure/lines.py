r"""Lines that values go through, $y = a x + l$, and what the lines of a normalizer show of it.

A batch normalizer maps each channel of a batch by one line, $y = w\,(x - \mu) / \sqrt{v + \epsilon} + b$: lines at
batches of huge and of tiny spread show w, b, $\epsilon$ and n - ``freedom`` in the variance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from flowref.model.call import Array

# Spreads of batches: so wide that no eps counts, and so narrow that nothing else does.
WIDE, NARROW = 1e4, 1e-6


class Line(NamedTuple):
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


def by_channel(x: Array, channel: Sequence[int] = (0,)) -> Array:
    """The values of each channel, ``(channels, values)``, in extended precision; ``channel``: its axes in an event."""
    front = [axis + 1 for axis in channel]
    moved = np.moveaxis(np.asarray(x), front, range(len(front)))
    count = int(np.prod(moved.shape[: len(front)]))
    return moved.reshape(count, -1).astype(np.longdouble)


def by_entry(x: Array) -> Array:
    """The values of each entry of an event, ``(entries, batch)``."""
    return np.asarray(x, dtype=np.float64).reshape(len(x), -1).T


def fitted(points: Array, values: Array) -> Line:
    """The lines that come nearest to what rows of points were mapped to, ``(lines, values)`` both."""
    center, middle = points.mean(1, keepdims=True), values.mean(1, keepdims=True)
    moved = points - center
    with np.errstate(all="ignore"):
        slope = (moved * (values - middle)).sum(1) / (moved**2).sum(1)
        off = np.abs(values - middle - slope[:, None] * moved).max(1)
        level = middle[:, 0] - slope * center[:, 0]
    return Line(*(np.asarray(each, dtype=np.float64) for each in (slope, level, off)))


def scale(train: Callable[[Array], Array], z: Array, channel: Sequence[int] = (0,)) -> Scale:
    """Measured by a call in train mode, on batches of huge and of tiny spread. ``z``: a standard normal batch."""
    batches = WIDE * z, WIDE * z[:2], NARROW * z
    wide, few, narrow = (by_channel(x, channel) for x in batches)
    big, pair, tiny = (
        fitted(rows, by_channel(train(x), channel))
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
