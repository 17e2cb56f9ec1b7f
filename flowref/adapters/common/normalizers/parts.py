"""Batch normalizers that split large batches and normalize each part by its own statistics."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np

from flowref.adapters.common.normalizers.probe import SAME, Probe, straight
from flowref.model import Array

# Rows of the batch, the most parts, the fewest rows of a part, and the displacement of a row.
ROWS, MOST, FEWEST, MOVED = 61, 20, 3, 100.0
# Batch sizes that may be a single part.
UNDIVIDED = (11, 8, 6, 5, 4)


def in_parts(probe: Probe, channel: Sequence[int]) -> int:
    """The number of parts of a large batch in train mode; 1 if none are seen. The part of a row consists of
    the rows that change with it.
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
    """The rows of a batch that is not divided; 0 if there is none."""
    for rows in UNDIVIDED:
        x = probe.draw(22, rows)
        with contextlib.suppress(Exception):  # it may reject few rows
            if straight(x, probe.train(x), channel):
                return rows
    return 0


def _own_lines(x: Array, y: Array, parts: Sequence[Array], channel: Sequence[int]) -> bool:
    """Whether each part has a line of its own, with equal means."""
    large = [part for part in parts if part.sum() >= FEWEST]
    if not all(straight(x[part], y[part], channel) for part in large):
        return False
    axes = tuple(axis for axis in range(x.ndim) if axis - 1 not in channel)
    means = np.array([y[part].mean(axes) for part in large])
    size = float(np.abs(y).max())
    return len(large) > 1 and bool(np.ptp(means, axis=0).max() <= 1e-2 * size)
