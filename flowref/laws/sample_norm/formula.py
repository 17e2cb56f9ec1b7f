"""Laws of instance, group and layer normalization, as calls show them and by no name."""

from __future__ import annotations

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
)
from flowref.model import Batch, Residual, Undecidable, law
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Eval, Train

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


@law(
    "sample-norm/formula",
    applies=normalizes_samples,
    size=1,
    local=False,
    effort=6,
    source=f"{BA}, section 3; {WU}, section 3",
)
def formula(flow: BatchNormal, batch: Batch) -> Residual:
    r"""In train mode every entry of the output is $w (x - \mu) / \sqrt{v + \epsilon} + b$, with mean
    and variance of the values of the sample that are normalized together, and one eps, whatever
    their spread and offset.
    """
    rng = np.random.default_rng(batch.seed)
    wide = WIDE * normal_batch(flow, rng, MANY)
    wide_y = output(flow, wide, Train())
    weight, bias = lines(flow, wide, wide_y, 0.0)
    z = normal_batch(flow, rng, ROWS)
    tiny = NARROW * z
    mean, var = spread_over(flow, tiny)
    entry = int(np.abs(weight).argmax())
    with np.errstate(all="ignore"):
        first = output(flow, tiny, Train())[0].flat[entry]
        hat = (first - bias.flat[entry]) / weight.flat[entry]
        eps = float(((tiny - mean)[0].flat[entry] / hat) ** 2 - var[0].flat[entry])
    if not np.isfinite(eps):
        raise Undecidable("its weight is zero")
    eps = constant(eps)
    weight, bias = lines(flow, wide, wide_y, eps)
    spread = 10.0 ** rng.uniform(-3, 2)
    x = spread * (z + constants(flow, rng, ROWS, 2.0))
    mean, var = spread_over(flow, x)
    standard = (x - mean) / np.sqrt(var + eps)
    y = output(flow, x, Train())
    size = np.abs(weight) * (1 + np.abs(standard)) + np.abs(bias)
    off = ratio(np.abs(y - weight * standard - bias), np.broadcast_to(size, y.shape))
    note = f"the output is not weight times the standardized input plus bias, with eps {eps:g}"
    return Residual(np.array([[off.max()]]), note=note)


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
