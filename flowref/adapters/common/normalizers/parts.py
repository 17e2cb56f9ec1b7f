"""Batch normalizers that normalize parts of a large batch, each by its own statistics."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np

from flowref.adapters.common.normalizers.probe import SAME, Probe, straight
from flowref.model import Array

# Rows of a batch that is normalized in parts, the most parts, and the fewest rows of one; how far a row is
# moved.
ROWS, MOST, FEWEST, MOVED = 61, 20, 3, 100.0
# Batches of which one may be a part by itself.
UNDIVIDED = (11, 8, 6, 5, 4)


def in_parts(probe: Probe, channel: Sequence[int]) -> int:
    """In how many parts train mode normalizes a large batch, each by its own statistics; 1 where that is
    not seen. The part of a row is what changes with it, however a batch is divided.
    """
    x = probe.draw(21, ROWS)
    y = probe.train(x)
    if straight(x, y, channel):
        return 1
    left, parts = np.ones(ROWS, dtype=bool), list[Array]()
    while left.any() and len(parts) < MOST:
        moved, row = x.copy(), int(left.argmax())
        moved[row] += MOVED
        gap = np.abs(probe.train(moved) - y).reshape(ROWS, -1).max(1)
        parts.append(gap > SAME * np.abs(y).max())
        left &= ~parts[-1]
        left[row] = False
    whole = (np.sum(parts, 0) == 1).all()
    return len(parts) if whole and _own_lines(x, y, parts, channel) else 1


def undivided(probe: Probe, channel: Sequence[int]) -> int:
    """Rows of a batch that such a layer leaves in one part; 0 where it divides each."""
    for rows in UNDIVIDED:
        x = probe.draw(22, rows)
        with contextlib.suppress(Exception):  # it may refuse so few
            if straight(x, probe.train(x), channel):
                return rows
    return 0


def _own_lines(x: Array, y: Array, parts: Sequence[Array], channel: Sequence[int]) -> bool:
    """Whether every part has a line of its own, of which the means are the same."""
    large = [part for part in parts if part.sum() >= FEWEST]
    if not all(straight(x[part], y[part], channel) for part in large):
        return False
    axes = tuple(axis for axis in range(x.ndim) if axis - 1 not in channel)
    means = np.array([y[part].mean(axes) for part in large])
    size = float(np.abs(y).max())
    return len(large) > 1 and bool(np.ptp(means, axis=0).max() <= 1e-2 * size)
