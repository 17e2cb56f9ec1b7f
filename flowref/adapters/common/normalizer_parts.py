"""Modules that are called batch normalizers and do another thing on purpose: they normalize parts of a
batch by themselves, or take away its mean and leave its spread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np

from flowref.adapters.common.normalizer_calls import SAME, Played, lines, near
from flowref.model import Array

# Rows of a batch that is normalized in parts, the most parts, and the fewest rows of one; how far a row is
# moved.
ROWS, MOST, FEWEST, MOVED = 61, 20, 3, 100.0
# Batches of which one may be a part by itself.
UNDIVIDED = (11, 8, 6, 5, 4)
# A spread that is larger, and how much larger that of an output which leaves it is.
LARGER, KEPT = 16.0, 0.01


def in_parts(played: Played, channel: Sequence[int]) -> int:
    """In how many parts train mode normalizes a large batch, each by its own statistics; 1 where that is
    not seen. The part of a row is what changes with it, however a batch is divided.
    """
    x = played.draw(21, ROWS)
    y = played.train(x)
    if lines(x, y, channel).off <= 100 * SAME:
        return 1
    left, parts = np.ones(ROWS, dtype=bool), list[Array]()
    while left.any() and len(parts) < MOST:
        moved, row = x.copy(), int(left.argmax())
        moved[row] += MOVED
        gap = np.abs(played.train(moved) - y).reshape(ROWS, -1).max(1)
        parts.append(gap > SAME * np.abs(y).max())
        left &= ~parts[-1]
        left[row] = False
    whole = (np.sum(parts, 0) == 1).all()
    return len(parts) if whole and _own_lines(x, y, parts, channel) else 1


def undivided(played: Played, channel: Sequence[int]) -> int:
    """Rows of a batch that such a layer leaves in one part; 0 where it divides each."""
    for rows in UNDIVIDED:
        x = played.draw(22, rows)
        with contextlib.suppress(Exception):  # it may refuse so few
            if lines(x, played.train(x), channel).off <= 100 * SAME:
                return rows
    return 0


def _own_lines(x: Array, y: Array, parts: Sequence[Array], channel: Sequence[int]) -> bool:
    """Whether every part has a line of its own, of which the means are the same."""
    large = [part for part in parts if part.sum() >= FEWEST]
    if any(lines(x[part], y[part], channel).off > 100 * SAME for part in large):
        return False
    axes = tuple(axis for axis in range(x.ndim) if axis - 1 not in channel)
    means = np.array([y[part].mean(axes) for part in large])
    size = float(np.abs(y).max())
    return len(large) > 1 and bool(np.ptp(means, axis=0).max() <= 1e-2 * size)


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
