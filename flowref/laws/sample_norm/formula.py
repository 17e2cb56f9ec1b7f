"""Laws of instance, group and layer normalization, as calls show them and by no name."""

from __future__ import annotations

from functools import partial

import numpy as np

from flowref.laws.batch_norm.arithmetic import ratio
from flowref.laws.batch_norm.measuring import constant
from flowref.laws.batch_norm.normalizer import normal_batch, output
from flowref.laws.sample_norm.groups import (
    NARROW,
    WIDE,
    constants,
    keeps_nothing,
    lines,
    normalizes_samples,
    spread_over,
    values_together,
)
from flowref.model import Array, Batch, Residual, Undecidable, law, requires
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Eval, Train, Weights

BA, WU = (
    "Ba et al. 2016, Layer Normalization (arXiv:1607.06450)",
    "Wu and He 2018, Group Normalization (arXiv:1803.08494)",
)
# Samples over which a line is fitted, and in a batch that is judged.
MANY, ROWS = 24, 6


@law(
    "sample-norm/shift-law",
    applies=normalizes_samples,
    size=1,
    local=False,
    effort=4,
    source=f"{BA}, section 3: a constant added to all that is normalized together leaves the output as it is",
)
def shift_law(flow: BatchNormal, batch: Batch) -> Residual:
    """A constant added to all values of a sample that are normalized together leaves the output as
    it is, in train mode.
    """
    rng = np.random.default_rng(batch.seed)
    # Multiples of 2^-10, so that the sum is exact in any precision.
    x = np.round(1024 * normal_batch(flow, rng, ROWS)) / 1024
    moved = x + np.round(1024 * constants(flow, rng, ROWS, float(rng.choice((0.5, 5.0))))) / 1024
    y, other = (output(flow, points, Train()) for points in (x, moved))
    return Residual((np.abs(other - y) / (1 + np.abs(y))).max().reshape(1, 1))


@requires("it holds parameters that are neither weights nor biases")
def holds_weights_alone(flow: BatchNormal) -> bool:
    """Every parameter has a number for each channel, group or entry: others may mix statistics, as
    switchable normalization does.
    """
    step, shape, roles = Weights(), flow.event_shape, flow.normalizer.roles
    trained = flow.play([step]).of(step)
    if {"weight", "bias"} <= set(roles):
        return set(trained) <= set(roles.values())
    counts = {shape[0], shape[-1], int(np.prod(shape)), flow.normalizer.groups}
    return all(np.size(value) in counts for value in trained.values())


@law(
    "sample-norm/formula",
    version=2,
    applies=normalizes_samples & holds_weights_alone,
    size=1,
    local=False,
    effort=6,
    source=f"{BA}, section 3; {WU}, section 3",
)
def formula(flow: BatchNormal, batch: Batch) -> Residual:
    r"""In train mode every entry of the output is $w (x - \mu) / \sqrt{v + \epsilon} + b$, or
    $w (x - \mu) / (\sqrt{v} + \epsilon) + b$, with mean and variance of the values of the sample that
    are normalized together, and one eps, whatever their spread and offset.
    """
    rng = np.random.default_rng(batch.seed)
    wide = WIDE * normal_batch(flow, rng, MANY)
    wide_y = output(flow, wide, Train())
    weight, bias = lines(flow, wide, wide_y, np.sqrt)
    z = normal_batch(flow, rng, ROWS)
    tiny = NARROW * z
    mean, var = spread_over(flow, tiny)
    entry = int(np.abs(weight).argmax())
    with np.errstate(all="ignore"):
        first = output(flow, tiny, Train())[0].flat[entry]
        hat = (first - bias.flat[entry]) / weight.flat[entry]
        divided = abs(float((tiny - mean)[0].flat[entry] / hat))
        own = float(var[0].flat[entry])
    if not np.isfinite(divided):
        raise Undecidable("its weight is zero")
    x = 10.0 ** rng.uniform(-3, 2) * (z + constants(flow, rng, ROWS, 2.0))
    mean, var = spread_over(flow, x)
    y = output(flow, x, Train())
    within, beside = constant(divided**2 - own), divided - float(np.sqrt(own))
    beside = written(beside, values_together(flow))
    gaps = []
    for eps, divisor in (
        (within, partial(_in_the_root, within)),
        (beside, partial(_beside_the_root, beside)),
    ):
        weight, bias = lines(flow, wide, wide_y, divisor)
        with np.errstate(all="ignore"):
            standard = (x - mean) / divisor(var)
            size = np.abs(weight) * (1 + np.abs(standard)) + np.abs(bias)
            off = ratio(np.abs(y - weight * standard - bias), np.broadcast_to(size, y.shape))
        gaps.append((float(np.nan_to_num(off, nan=np.inf).max()), eps))
    worst, eps = min(gaps)
    note = f"the output is not weight times the standardized input plus bias, with eps {eps:g}"
    return Residual(np.array([[worst]]), note=note)


def written(measured: float, values: int) -> float:
    """An eps beside the root as it was written, where it has few digits, or would have with a deviation by
    n - 1.
    """
    for factor in (1.0, np.sqrt(values / max(values - 1, 1))):
        whole = float(f"{measured * factor:.3g}")
        if abs(whole - measured * factor) <= 1e-5 * abs(whole):
            return float(whole / factor)
    return measured


def _in_the_root(eps: float, var: Array) -> Array:
    return np.asarray(np.sqrt(var + eps))


def _beside_the_root(eps: float, var: Array) -> Array:
    return np.asarray(np.sqrt(var) + eps)


@law(
    "sample-norm/modes-agree",
    applies=normalizes_samples & keeps_nothing,
    size=1,
    local=False,
    effort=3,
    source=f"{WU}, section 1: without statistics of batches, training and inference are the same",
)
def modes_agree(flow: BatchNormal, batch: Batch) -> Residual:
    """What normalizes each sample by itself, and keeps no statistics, is the same map in train and
    in eval mode.
    """
    x = normal_batch(flow, np.random.default_rng(batch.seed), ROWS)
    trained, evaluated = output(flow, x, Train()), output(flow, x, Eval())
    if np.shape(trained) != np.shape(evaluated):
        return Residual(np.array([[np.inf]]), note="the modes return other shapes")
    off = (np.abs(trained - evaluated) / (1 + np.abs(trained))).max()
    return Residual(np.array([[off]]), note="train mode is another map than eval mode")
