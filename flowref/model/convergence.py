"""Orders of convergence of a solver under repeated doubling of its steps."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from flowref.model.call import Array

# Factors of the number of steps, and the minimal number of informative points.
TIMES, TELLING = (1, 2, 4, 8), 4
# The share of points that must show an order: at some points the first-order error nearly vanishes.
SHOWN = 0.75
# Largest remainder of an error that should halve, at the last two doublings, since second-order
# terms vanish as well. Jumps of a field leave errors without sign, which do not decrease.
KEPT = (0.4, 0.2)
# The minimal ratio of successive differences for order two and higher; and the rounding level.
FALLEN, ROUNDED = 2.8, 1e-11


def first_order(errors: Sequence[Array]) -> bool:
    """Whether errors ``(rows, ...)``, one array for each of `TIMES`, halve with each doubling at nearly all
    informative rows, keeping their sign.
    """
    flat = [np.asarray(error, dtype=np.float64).reshape(len(error), -1) for error in errors]
    sizes = [np.linalg.norm(error, axis=1) for error in flat]
    finite = np.isfinite(sizes).all(0)
    informative = finite & (
        sizes[-1] > max(ROUNDED, 1e-3 * float(sizes[-1][finite].max(initial=0.0)))
    )
    if informative.sum() < TELLING:
        return False
    pairs = zip(flat[1:-1], flat[2:], sizes[1:-1], KEPT, strict=True)
    halved = [
        np.linalg.norm(2 * finer - coarser, axis=1) <= kept * size
        for coarser, finer, size, kept in pairs
    ]
    return bool(np.all(halved, axis=0)[informative].mean() >= SHOWN)


def higher_order(values: Sequence[Array]) -> bool:
    """Whether values ``(rows, ...)``, one array for each of `TIMES`, converge faster than first order at
    nearly all rows.
    """
    flat = [np.asarray(value, dtype=np.float64).reshape(len(value), -1) for value in values]
    scale = ROUNDED * (1 + np.abs(flat[0]).max(1))
    steps = [np.linalg.norm(b - a, axis=1) for a, b in itertools.pairwise(flat)]
    fast = [
        (later <= earlier / FALLEN) | (later <= scale)
        for earlier, later in itertools.pairwise(steps)
    ]
    return bool(np.isfinite(steps).all() and np.all(fast, axis=0).mean() >= SHOWN)
