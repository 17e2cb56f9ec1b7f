"""Modules that are called batch normalizers and do another thing on purpose: they normalize parts of a
batch by themselves, or take away its mean and leave its spread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from flowref.adapters.common.normalizer_calls import SAME, Played, lines, near
from flowref.model import Array

# Rows of a batch that is normalized in parts, the most parts, and the fewest rows of one.
ROWS, MOST, FEWEST = 61, 20, 3
# Batches of which one may be a part by itself.
UNDIVIDED = (11, 8, 6, 5, 4)
# A spread that is larger, and how much larger that of an output which leaves it is.
LARGER, KEPT = 16.0, 0.01


def in_parts(played: Played, channel: Sequence[int]) -> int:
    """In how many parts of consecutive rows train mode normalizes a large batch, each by its own
    statistics; 1 where that is not seen.
    """
    x = played.draw(21, ROWS)
    y = played.train(x)
    if lines(x, y, channel).off <= 100 * SAME:
        return 1
    for count in range(2, MOST + 1):
        for ends in (_even(count), _full(count)):
            bounds = list(pairwise(ends))
            if all(end - start >= 1 for start, end in bounds) and _own_lines(x, y, bounds, channel):
                return len(bounds)
    return 1


def undivided(played: Played, channel: Sequence[int]) -> int:
    """Rows of a batch that such a layer leaves in one part; 0 where it divides each."""
    for rows in UNDIVIDED:
        x = played.draw(22, rows)
        with contextlib.suppress(Exception):  # it may refuse so few
            if lines(x, played.train(x), channel).off <= 100 * SAME:
                return rows
    return 0


def _even(count: int) -> list[int]:
    """Bounds of parts that are as even as they can be, the larger ones first."""
    return [0, *np.cumsum([len(part) for part in np.array_split(np.arange(ROWS), count)]).tolist()]


def _full(count: int) -> list[int]:
    """Bounds of full parts, the last of which may have fewer rows."""
    size = -(-ROWS // count)
    return [*range(0, ROWS, size), ROWS]


def _own_lines(
    x: Array, y: Array, bounds: Sequence[tuple[int, int]], channel: Sequence[int]
) -> bool:
    """Whether every part has a line of its own, of which the means are the same."""
    means, seen = [], 0
    for start, end in bounds:
        if end - start < FEWEST:
            continue
        part = lines(x[start:end], y[start:end], channel)
        if part.off > 100 * SAME:
            return False
        axes = tuple(axis for axis in range(x.ndim) if axis - 1 not in channel)
        means.append(y[start:end].mean(axes))
        seen += 1
    size = float(np.abs(y).max())
    return seen > 1 and bool(np.ptp(np.stack(means), axis=0).max() <= 1e-2 * size)


def takes_mean_alone(played: Played) -> bool:
    """Whether train mode takes away the mean of a batch and leaves its spread, of a module that keeps one
    statistic of each channel: one that kept two would have forgotten the other.
    """
    held = played.held().values()
    kept = [one for one in held if not one.trained and one.size > 1 and one.floating]
    if len(kept) != 1 or kept[0].size not in played.shape:
        return False
    x = played.draw(22, 9)
    y, larger, higher = (played.train(points) for points in (x, LARGER * x, x + 7.0))
    axes = tuple(at for at in range(x.ndim) if at == 0)
    centered, wider = y - y.mean(axes, keepdims=True), larger - larger.mean(axes, keepdims=True)
    return near(higher, y) and bool(
        np.abs(wider - LARGER * centered).max() <= KEPT * np.abs(wider).max()
    )
