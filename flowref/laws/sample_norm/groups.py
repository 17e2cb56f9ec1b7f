"""The values of a sample that are normalized together, and their moments."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flowref.model import DEVIATION, SAMPLE, Array, requires
from flowref.model.abilities import BatchNormal

# Spreads beside which eps does not count, and beside which nothing else does.
WIDE, NARROW = 1e4, 1e-6


@requires("it normalizes no sample by itself")
def normalizes_samples(flow: BatchNormal) -> bool:
    """Statistics are of each sample."""
    return flow.normalizer.statistics in SAMPLE


@requires("it takes no mean away")
def centers(flow: BatchNormal) -> bool:
    """What it divides by is a spread about the mean."""
    return flow.normalizer.spread == DEVIATION


@requires("its eval mode has statistics of its own")
def keeps_nothing(flow: BatchNormal) -> bool:
    """Nothing is averaged over batches."""
    return not flow.normalizer.tracks


def spread_over(flow: BatchNormal, values: Array) -> tuple[Array, Array]:
    """Mean and variance of the values of each sample that are normalized together, in the shape of
    the batch; zero and mean square, where no mean is taken away.
    """
    normalizer, shape = flow.normalizer, np.shape(values)
    rows, axes = np.asarray(values, dtype=np.longdouble), tuple(a + 1 for a in normalizer.channel)
    if normalizer.groups > 1:
        rows = rows.reshape(len(rows), normalizer.groups, -1)
        axes = (2,)
    mean = rows.mean(axes, keepdims=True)
    if normalizer.spread != DEVIATION:
        mean = 0 * mean
    var = ((rows - mean) ** 2).mean(axes, keepdims=True)
    return tuple(  # type: ignore[return-value]  # two of them
        np.broadcast_to(each, rows.shape).reshape(shape).astype(np.float64) for each in (mean, var)
    )


def values_together(flow: BatchNormal) -> int:
    """How many values of a sample are normalized together."""
    normalizer, shape = flow.normalizer, flow.event_shape
    if normalizer.groups > 1:
        return int(np.prod(shape)) // normalizer.groups
    return int(np.prod([shape[axis] for axis in normalizer.channel]))


def constants(flow: BatchNormal, rng: np.random.Generator, rows: int, spread: float) -> Array:
    """Random numbers, one for all values that are normalized together."""
    normalizer, shape = flow.normalizer, (rows, *flow.event_shape)
    if normalizer.groups > 1:
        one = rng.standard_normal((rows, normalizer.groups, 1))
        grouped = np.broadcast_to(
            one, (rows, normalizer.groups, int(np.prod(shape[1:])) // normalizer.groups)
        )
        return np.asarray(spread * grouped.reshape(shape))
    axes = {axis + 1 for axis in normalizer.channel}
    short = [1 if axis in axes else size for axis, size in enumerate(shape)]
    return np.asarray(spread * np.broadcast_to(rng.standard_normal(short), shape))


def lines(
    flow: BatchNormal, x: Array, y: Array, divisor: Callable[[Array], Array]
) -> tuple[Array, Array]:
    """Weight and bias of each entry of an event: the line, over the samples, of its output in its
    standardized input, where that is at no threshold. ``divisor``: what is divided by, of a variance.
    """
    mean, var = spread_over(flow, x)
    hat = ((x - mean) / divisor(var)).astype(np.longdouble)
    values, free = np.asarray(y, dtype=np.longdouble), at_no_threshold(flow, y)
    middle, level = ((each * free).sum(0) / np.maximum(free.sum(0), 1) for each in (hat, values))
    moved = (hat - middle) * free
    with np.errstate(all="ignore"):
        weight = (moved * (values - level)).sum(0) / (moved**2).sum(0)
    return weight.astype(np.float64), (level - weight * middle).astype(np.float64)


def at_no_threshold(flow: BatchNormal, y: Array) -> Array:
    """Where an output is neither the least nor the largest of its channel: learned thresholds follow
    what takes no mean away.
    """
    rows = np.asarray(y, dtype=np.float64)
    free = np.ones(rows.shape, dtype=bool)
    if flow.normalizer.spread == DEVIATION:
        return free
    together = {axis + 1 for axis in flow.normalizer.channel} if rows.ndim > 2 else set()
    axes = tuple({0} | together)
    for end in (rows.min(axes, keepdims=True), rows.max(axes, keepdims=True)):
        free &= rows != end
    return free
