"""The arithmetic of batch normalization in numpy, in extended precision.

Shapes: x and y ``(batch, channels, *positions)``; anything kept per channel ``(channels,)``.
"""

from __future__ import annotations

import numpy as np

from flowref.model import Array
from flowref.model.structure.line_fits import by_channel


def nearest_float32(x: Array) -> Array:
    """The nearest float32 values, so that a batch is the same in both precisions."""
    return np.asarray(x, dtype=np.float64).astype(np.float32).astype(np.float64)


def broadcast_channels(values: Array, x: Array) -> Array:
    """Numbers per channel ``(channels,)``, reshaped to broadcast against a batch."""
    return np.asarray(values).reshape(1, -1, *[1] * (x.ndim - 2))


def per_channel(x: Array) -> Array:
    """The values of each channel, ``(channels, values)``, in extended precision."""
    return by_channel(x)


def channel_moments(x: Array, freedom: int = 0) -> tuple[Array, Array]:
    r"""Mean and variance of each channel, ``(channels,)`` each, $v = \sum (x - \mu)^2 / (n - f)$,
    in two passes.
    """
    rows = per_channel(x)
    mean = rows.mean(1)
    var = ((rows - mean[:, None]) ** 2).sum(1) / max(rows.shape[1] - freedom, 1)
    return mean.astype(np.float64), var.astype(np.float64)


def standardized(x: Array, mean: Array, var: Array, eps: float) -> Array:
    r"""$\hat x = (x - \mu) / \sqrt{v + \epsilon}$."""
    return np.asarray((x - broadcast_channels(mean, x)) / np.sqrt(broadcast_channels(var, x) + eps))


def summed(values: Array) -> Array:
    """The sum over each channel, ``(channels,)``."""
    return np.asarray(per_channel(values).sum(1), dtype=np.float64)


def largest_per_channel(values: Array) -> Array:
    """The largest absolute value of each channel, ``(channels,)``."""
    return np.asarray(np.abs(per_channel(values)).max(1), dtype=np.float64)


def channel_gap(got: Array, expected: Array, size: Array) -> Array:
    """The largest difference of two batches per channel, relative to ``size``, ``(channels,)``;
    inf if shapes differ.
    """
    if np.shape(got) != np.shape(expected):
        return np.full(len(size), np.inf)
    return ratio(largest_per_channel(np.asarray(got, dtype=np.float64) - expected), size)


def ratio(difference: Array, size: Array) -> Array:
    """A difference relative to a size; 0 for no difference."""
    difference, size = np.asarray(difference, dtype=np.float64), np.asarray(size, dtype=np.float64)
    return np.where(difference == 0, 0.0, difference / np.where(size > 0, size, 1.0))


def nan_as_inf(residual: Array) -> Array:
    """The residual with nan replaced by inf."""
    return np.asarray(np.nan_to_num(residual, nan=np.inf))


def worst(residual: Array) -> float:
    """The largest entry of a residual; inf if one is nan."""
    return float(nan_as_inf(residual).max())
