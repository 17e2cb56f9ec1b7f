"""Laws of the map that a batch normalizer is, as calls show it and by no name: lines per channel, by
the moments of the batch, with parameters that act alike in both modes.
"""

from __future__ import annotations

import math

import numpy as np

from flowref.laws.batch_norm.arithmetic import (
    apart,
    largest,
    moments,
    nan_as_inf,
    ratio,
    single,
    summed,
    wide,
)
from flowref.laws.batch_norm.conditions import normalizes
from flowref.laws.batch_norm.declaring import batch_norm_law, batch_residual
from flowref.laws.batch_norm.gradients import random_cotangent
from flowref.laws.batch_norm.measuring import (
    has_parameters,
    is_not_constant,
    keeps_some_statistics,
    line,
    off_line,
    scale_of,
)
from flowref.laws.batch_norm.normalizer import (
    channels,
    input_gradient,
    normal_batch,
    output,
    random_batch,
)
from flowref.laws.common.outcomes import attempt
from flowref.model import Batch, Residual
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Eval, Nudge, Pullback, Train

IOFFE = "Ioffe and Szegedy 2015, Batch Normalization (arXiv:1502.03167), algorithm 1"
# Exponents of the spreads of batches, and by how much parameters are moved.
SPREADS, MOVE = (-4.0, 2.0), 0.3


@batch_norm_law("batch-norm/train-map", applies=normalizes, source=IOFFE, version=2)
def train_map(flow: BatchNormal, batch: Batch) -> Residual:
    """In train mode every channel of the output is a line in the input, the same at all samples and
    positions, and has a mean that is the same for every batch, also of one sample with several positions, and of
    sequences with as many positions as channels.
    """
    rng = np.random.default_rng(batch.seed)
    x, other = random_batch(flow, rng), random_batch(flow, rng)
    y, y_other = (output(flow, points, Train()) for points in (x, other))
    batches = [(x, y), (other, y_other)]
    others = [(1, flow.event_shape)] if math.prod(flow.event_shape[1:]) > 1 else []
    others += [(0, (channels(flow),) * 2)] if len(flow.event_shape) == 2 else []
    for rows, shape in others:
        points = random_batch(flow, rng, rows, shape)
        out, _ = attempt(output, flow, points, Train())  # which may be refused
        batches += [] if out is None or np.shape(out) != points.shape else [(points, out)]
    off = nan_as_inf(np.stack([off_line(*one) for one in batches]))
    mean = np.stack(
        [
            ratio(np.abs(moments(y)[0] - moments(out)[0]), largest(y) + largest(out))
            for _, out in batches[1:]
        ]
    )
    if off.max() > mean.max():
        note = "in train mode a channel of the output is no line in the input"
    else:
        note = "the mean of the output depends on the batch"
    return batch_residual(np.vstack([off, mean]), note)


@batch_norm_law("batch-norm/deviation", applies=normalizes & is_not_constant, source=IOFFE)
def deviation(flow: BatchNormal, batch: Batch) -> Residual:
    r"""In train mode a channel is divided by $\sqrt{v + \epsilon}$, with the variance of the batch
    about its mean and one constant, whatever the spread and the offset of the batch.
    """
    rng = np.random.default_rng(batch.seed)
    scale = scale_of(flow)
    spread = 10.0 ** rng.uniform(*SPREADS, channels(flow))
    offset = spread * rng.choice((0.0, 0.5, -1.0, 3.0), channels(flow))
    z = normal_batch(flow, rng, int(rng.integers(4, 12)))
    x = single(wide(offset, z) + wide(spread, z) * z)
    got = line(x, output(flow, x, Train())).slope
    var = moments(x, scale.freedom)[1]
    expected = scale.weight / np.sqrt(var + scale.eps)
    # A cancellation of E[x^2] - E[x]^2 is the affair of another law.
    return batch_residual(
        ratio(np.abs(got - expected), np.abs(expected)),
        f"the slope is not weight / sqrt(variance + eps), with eps {scale.eps:g} as a batch of "
        "tiny spread shows it",
        slope=got,
        expected_slope=expected,
        variance=var,
    )


@batch_norm_law(
    "batch-norm/modes-agree",
    applies=normalizes & keeps_some_statistics & has_parameters & is_not_constant,
    source="Ioffe and Szegedy 2015, algorithm 2: inference replaces the statistics and keeps the learned scale and shift",
)
def modes_agree(flow: BatchNormal, batch: Batch) -> Residual:
    """Parameters act alike in both modes: what moving them does to scale and shift of the output in
    train mode, it does in eval mode.
    """
    rng = np.random.default_rng(batch.seed)
    x = random_batch(flow, rng)
    step = Nudge(batch.seed % 1000, MOVE)
    one, two = (output(flow, x, *before, Train()) for before in ((), (step,)))
    fixed, moved = (output(flow, x, *before, Eval()) for before in ((), (step,)))
    slope, slope_moved = line(x, one).slope, line(x, two).slope
    shift, shift_moved = moments(one)[0], moments(two)[0]
    left = wide(slope, x) * (moved - wide(shift_moved, x))
    right = wide(slope_moved, x) * (fixed - wide(shift, x))
    size = np.abs(slope) * (largest(moved) + np.abs(shift_moved))
    size = size + np.abs(slope_moved) * (largest(fixed) + np.abs(shift))
    return batch_residual(
        apart(left, right, size),
        "a change of the parameters changes eval mode in another way than train mode",
        slope_in_train_mode=slope,
        slope_in_train_mode_after=slope_moved,
    )


@batch_norm_law(
    "batch-norm/measured-gradient",
    applies=normalizes & is_not_constant,
    effort=6,
    source=f"{IOFFE}: the gradient flows through the mean and the variance of the batch",
)
def measured_gradient(flow: BatchNormal, batch: Batch) -> Residual:
    r"""In train mode the gradient of the input is that of the map of the whole batch:
    $dx = a\,(dy - \overline{dy} - (x - \mu) \sum dy\,(x - \mu) / (n (v + \epsilon)))$ with the
    slope a of the output.
    """
    rng = np.random.default_rng(batch.seed)
    scale = scale_of(flow)
    x = random_batch(flow, rng)
    dy = random_cotangent(x, rng)
    pulled = flow.play([Train(), Pullback(x, dy)])[-1]
    slope = line(x, np.asarray(pulled.value)).slope
    values = x[:, 0].size
    mean, var = moments(x, scale.freedom)
    centered = x - wide(mean, x)
    along = summed(dy * centered) / ((values - scale.freedom) * (var + scale.eps))
    expected = wide(slope, x) * (dy - wide(summed(dy) / values, x) - centered * wide(along, x))
    hat = largest(centered) / np.sqrt(var + scale.eps)
    size = np.abs(slope) * largest(dy) * (1 + hat**2)
    dx = input_gradient(pulled, x)
    return batch_residual(
        apart(dx, expected, size),
        "the gradient of the input is not that of normalization by the batch",
        largest_dx=largest(dx),
        expected_largest_dx=largest(expected),
    )
