"""The groups of values of a sample that are normalized together: their moments, and the constant
eps, measured with the narrowest samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from flowref.laws.batch_norm.formula import constant
from flowref.laws.batch_norm.normalizer import output
from flowref.model import DEVIATION, SAMPLE, Array, Requirement, Shape, Undecidable
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Train
from flowref.model.structure.line_fits import fit_lines

Divisor = Callable[[Array], Array]
# The least share of the narrowest variance that counts as an eps, and the number of measurements.
LEAST, TIMES = 1e-9, 4

normalizes_samples = Requirement(
    lambda flow: flow.normalizer.statistics in SAMPLE, "it normalizes no sample by itself"
)
# It divides by a spread about the mean.
centers = Requirement(
    lambda flow: flow.normalizer.spread == DEVIATION, "it does not subtract the mean"
)
keeps_nothing = Requirement(
    lambda flow: not flow.normalizer.tracks, "its eval mode has statistics of its own"
)


def normalized_view(flow: BatchNormal, rows: int) -> tuple[Shape, tuple[int, ...]]:
    """A shape of the batch in which groups lie along axes, and these axes."""
    normalizer, event = flow.normalizer, flow.event_shape
    if normalizer.groups > 1:
        return (rows, normalizer.groups, math.prod(event) // normalizer.groups), (2,)
    return (rows, *event), tuple(axis + 1 for axis in normalizer.channel)


def spread_over(flow: BatchNormal, values: Array) -> tuple[Array, Array]:
    """Mean and variance of each group, broadcast to the shape of the batch; zero and mean square
    without centering.
    """
    view, axes = normalized_view(flow, len(values))
    rows = np.asarray(values, dtype=np.longdouble).reshape(view)
    mean = rows.mean(axes, keepdims=True)
    if flow.normalizer.spread != DEVIATION:
        mean = 0 * mean
    var = ((rows - mean) ** 2).mean(axes, keepdims=True)
    return tuple(  # type: ignore[return-value]  # two of them
        np.broadcast_to(each, view).reshape(np.shape(values)).astype(np.float64)
        for each in (mean, var)
    )


def values_together(flow: BatchNormal) -> int:
    """The number of values in a group."""
    view, axes = normalized_view(flow, 1)
    return math.prod(view[axis] for axis in axes)


def group_constants(flow: BatchNormal, rng: np.random.Generator, rows: int, spread: float) -> Array:
    """Random numbers, one per group, broadcast to the shape of the batch."""
    view, axes = normalized_view(flow, rows)
    short = [1 if axis in axes else size for axis, size in enumerate(view)]
    numbers = np.broadcast_to(rng.standard_normal(short), view)
    return np.asarray(spread * numbers.reshape(rows, *flow.event_shape))


def weight_and_bias(flow: BatchNormal, x: Array, y: Array, divisor: Divisor) -> tuple[Array, Array]:
    """Weight and bias of each entry of an event: the least-squares line of its output in its
    standardized input over samples, away from thresholds. ``divisor``: a function of the variance.
    """
    mean, var = spread_over(flow, x)
    hat = ((x - mean) / divisor(var)).astype(np.longdouble)
    values = np.asarray(y, dtype=np.longdouble)
    weight, bias, _ = fit_lines(
        *(each.reshape(len(x), -1).T for each in (hat, values, at_no_threshold(flow, y)))
    )
    return weight.reshape(x.shape[1:]), bias.reshape(x.shape[1:])


def at_no_threshold(flow: BatchNormal, y: Array) -> Array:
    """The outputs that are neither the smallest nor the largest of their channel: layers without
    centering may have learned thresholds.
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


def divisors(
    flow: BatchNormal, wide: Array, wide_y: Array, tiny: Array
) -> list[tuple[float, Divisor]]:
    """The eps and the divisor as a function of a variance, with eps inside and outside of the
    root.
    """
    mean, var = spread_over(flow, tiny)
    y = output(flow, tiny, Train())
    free = at_no_threshold(flow, y)
    weight, _ = weight_and_bias(flow, wide, wide_y, np.sqrt)
    entry = int(np.where(free.any(0) & np.isfinite(weight), np.abs(weight), -1.0).argmax())
    row = int(free.reshape(len(free), -1)[:, entry].argmax())
    moved, own, first = (float(each[row].flat[entry]) for each in (tiny - mean, var, y))

    def divided_by(divisor: Divisor) -> float:
        """The measured divisor of the narrowest sample."""
        weight, bias = weight_and_bias(flow, wide, wide_y, divisor)
        with np.errstate(all="ignore"):
            found = float(np.abs(moved * weight.flat[entry] / (first - bias.flat[entry])))
        if not np.isfinite(found):
            raise Undecidable("its weight is zero")
        return found

    within = beside = 0.0
    for _ in range(TIMES):  # eps relative to the weight affects wide samples as well
        within = divided_by(partial(_in_the_root, within)) ** 2 - own
        within = constant(within, LEAST * own)
        beside = divided_by(partial(_beside_the_root, beside)) - float(np.sqrt(own))
    beside = written(beside, values_together(flow))
    return [
        (within, partial(_in_the_root, within)),
        (beside, partial(_beside_the_root, beside)),
    ]


def written(measured: float, values: int) -> float:
    """An eps outside of the root, rounded if it has few digits, also for a deviation with n - 1."""
    for factor in (1.0, np.sqrt(values / max(values - 1, 1))):
        whole = float(f"{measured * factor:.3g}")
        if abs(whole - measured * factor) <= 1e-5 * abs(whole):
            return float(whole / factor)
    return measured


def _in_the_root(eps: float, var: Array) -> Array:
    return np.asarray(np.sqrt(var + eps))


def _beside_the_root(eps: float, var: Array) -> Array:
    return np.asarray(np.sqrt(var) + eps)
