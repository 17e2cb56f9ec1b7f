"""Orders of convergence: how fast numbers settle as a solver takes twice the steps, time after time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from flowref.model.call import Array

# So many times the steps are compared; and so many points have to tell.
TIMES, TELLING = (1, 2, 4, 8), 4
# Which share of them has to show an order: at a few an error of first order is next to none, and others are seen.
SHOWN = 0.75
# What an error of first order keeps beside half of itself, at the last two doublings: its second order falls as
# well. Jumps of a field leave errors of no sign, which keep about all.
KEPT = (0.4, 0.2)
# By how much each difference of values is smaller than the one before it, where these are of second order or more,
# at least; and what is lost in rounding.
FALLEN, ROUNDED = 2.8, 1e-11


def first_order(errors: Sequence[Array]) -> bool:
    """Whether errors, ``(rows, ...)`` for each of `TIMES`, are halved by twice the steps, at nearly all rows
    that tell: the same one each time, with its sign.
    """
    flat = [np.asarray(error, dtype=np.float64).reshape(len(error), -1) for error in errors]
    sizes = [np.linalg.norm(error, axis=1) for error in flat]
    finite = np.isfinite(sizes).all(0)
    tells = finite & (sizes[-1] > max(ROUNDED, 1e-3 * float(sizes[-1][finite].max(initial=0.0))))
    if tells.sum() < TELLING:
        return False
    pairs = zip(flat[1:-1], flat[2:], sizes[1:-1], KEPT, strict=True)
    halved = [
        np.linalg.norm(2 * finer - coarser, axis=1) <= kept * size
        for coarser, finer, size, kept in pairs
    ]
    return bool(np.all(halved, axis=0)[tells].mean() >= SHOWN)


def higher_order(values: Sequence[Array]) -> bool:
    """Whether values, ``(rows, ...)`` for each of `TIMES`, settle faster than by halves at nearly all rows."""
    flat = [np.asarray(value, dtype=np.float64).reshape(len(value), -1) for value in values]
    scale = ROUNDED * (1 + np.abs(flat[0]).max(1))
    steps = [np.linalg.norm(b - a, axis=1) for a, b in itertools.pairwise(flat)]
    fast = [
        (later <= earlier / FALLEN) | (later <= scale)
        for earlier, later in itertools.pairwise(steps)
    ]
    return bool(np.isfinite(steps).all() and np.all(fast, axis=0).mean() >= SHOWN)
