r"""What calls of a batch normalizer measure of it, whatever its attributes are called: the line
$y = a x + l$ that each channel of a batch goes through, and from lines weight, bias, eps and the
statistics that were used.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flowref.laws.batch_norm.arithmetic import largest, moments, per_channel, ratio
from flowref.laws.batch_norm.normalizer import channels, normal_batch, output
from flowref.model import Array, Unsupported, requires
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Eval, Run, Step, Train

# Spreads of batches beside which eps does not count, and beside which nothing else does; the rows
# with which they are measured.
WIDE, NARROW, ROWS = 1e4, 1e-6, 16
# A measured constant that is so near to one of three digits is that one.
FEW = 1e-5


class Line(NamedTuple):
    """Slope and level of the line of each channel, and how far its values are from it, ``(channels,)``
    each.
    """

    slope: Array
    level: Array
    off: Array


def line(x: Array, y: Array) -> Line:
    """The line that comes nearest to what each channel was mapped to; `Unsupported` where the output
    has another shape.
    """
    if np.shape(y) != np.shape(x):
        raise Unsupported(f"its output has shape {np.shape(y)}, where its input has {np.shape(x)}")
    points, values = per_channel(x), per_channel(np.asarray(y, dtype=np.float64))
    center, middle = points.mean(1, keepdims=True), values.mean(1, keepdims=True)
    moved = points - center
    slope = (moved * (values - middle)).sum(1) / (moved**2).sum(1)
    off = np.abs(values - middle - slope[:, None] * moved).max(1)
    level = middle[:, 0] - slope * center[:, 0]
    return Line(*(np.asarray(each, dtype=np.float64) for each in (slope, level, off)))


class Scale(NamedTuple):
    """Weight and bias of each channel, the constant eps, and n - ``freedom`` in the variance: as
    train mode shows them.
    """

    weight: Array
    bias: Array
    eps: float
    freedom: int


def scale_of(flow: BatchNormal, *before: Step[object]) -> Scale:
    """Measured in train mode, after other steps, on batches of huge and of tiny spread."""
    rng = np.random.default_rng(5)
    z = normal_batch(flow, rng, ROWS)
    wide, few = WIDE * z, WIDE * z[:2]
    big, pair = (line(x, output(flow, x, *before, Train())) for x in (wide, few))
    weights = [big.slope * np.sqrt(moments(wide, freedom)[1]) for freedom in (0, 1)]
    gaps = [
        np.abs(pair.slope * np.sqrt(moments(few, freedom)[1]) - weights[freedom]).max()
        for freedom in (0, 1)
    ]
    freedom = int(gaps[1] < gaps[0])
    weight, bias = weights[freedom], big.level + big.slope * moments(wide)[0]
    tiny = line(NARROW * z, output(flow, NARROW * z, *before, Train()))
    channel = int(np.abs(weight).argmax())
    with np.errstate(all="ignore"):
        var = moments(NARROW * z, freedom)[1][channel]
        eps = constant(float((weight[channel] / tiny.slope[channel]) ** 2 - var))
        weight = weight * np.sqrt(1 + eps / moments(wide, freedom)[1])
    return Scale(weight, bias, eps, freedom)


def constant(measured: float, least: float = 1e-2 * NARROW**2) -> float:
    """A constant as it was written, where it has few digits; zero where it is nothing beside the
    narrowest batch.
    """
    if not np.isfinite(measured):
        raise Unsupported("its eps is not seen, since it returns a constant")
    if abs(measured) <= least:
        return 0.0
    written = float(f"{measured:.3g}")
    return written if abs(written - measured) <= FEW * abs(measured) else measured


class Used(NamedTuple):
    """The mean that a line takes away, and what it divides by squared: the variance with eps."""

    mean: Array
    inside: Array


def used(fixed: Line, scale: Scale) -> Used:
    """The statistics of a line, given weight and bias; nan where a weight is zero."""
    with np.errstate(all="ignore"):
        return Used((scale.bias - fixed.level) / fixed.slope, (scale.weight / fixed.slope) ** 2)


def off_line(x: Array, y: Array) -> Array:
    """How far a batch is from lines, relative to the size of their terms, ``(channels,)``."""
    seen = line(x, y)
    return ratio(seen.off, np.abs(seen.slope) * largest(x) + np.abs(seen.level))


@requires("it normalizes by the batch in both modes, and keeps no statistics")
def keeps_some_statistics(flow: BatchNormal) -> bool:
    """Eval mode has statistics of its own."""
    return not flow.promises.get("batch-statistics")


@requires("it has no parameters")
def has_parameters(flow: BatchNormal) -> bool:
    """Something is trained."""
    return flow.trainable


@requires("it offers no log-det")
def offers_log_det(flow: BatchNormal) -> bool:
    """The normalizing call returns a log-det."""
    run = Run(flow.normalizer.call, normal_batch(flow, np.random.default_rng(0), 3))
    return flow.play([Eval(), run]).of(run).ladj is not None


@requires("in train mode it returns a constant, whatever the batch")
def is_not_constant(flow: BatchNormal) -> bool:
    """Some channel has a weight."""
    x = WIDE * normal_batch(flow, np.random.default_rng(1), ROWS)
    return bool((np.abs(line(x, output(flow, x, Train())).slope) > 0).any()) and channels(flow) > 0
