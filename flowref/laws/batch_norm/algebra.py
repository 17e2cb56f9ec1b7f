"""Laws of how the output of a batch normalizer answers to changes of its input: scales, shifts,
orders, other channels.
"""

from __future__ import annotations

import numpy as np

from flowref.laws.batch_norm.arithmetic import apart, largest, moments, per_channel, ratio, wide
from flowref.laws.batch_norm.conditions import normalizes, takes_eps, usual
from flowref.laws.batch_norm.declaring import batch_norm_law, batch_residual
from flowref.laws.batch_norm.measuring import keeps_some_statistics
from flowref.laws.batch_norm.normalizer import (
    Parameters,
    channels,
    output,
    random_batch,
)
from flowref.laws.common.outcomes import flags, state_gap
from flowref.model import EXACT, Array, Batch, Residual, requires
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Assign, Eval, Normalize, Roles, State, Train

FACTORS = (-1.0, 0.03, -0.5, 7.0, -40.0)


def centered(y: Array) -> tuple[Array, Array]:
    """An output without its mean per channel, which is the bias, and its size per channel."""
    middle = y - wide(moments(y)[0], y)
    return middle, largest(y) + largest(middle)


@batch_norm_law(
    "batch-norm/scale-law",
    applies=normalizes & takes_eps,
    effort=6,
    source="Ioffe and Szegedy 2015, section 3.3, BN((aW)u) = BN(Wu), made exact for every eps and every sign",
)
def scale_law(flow: BatchNormal, batch: Batch) -> Residual:
    r"""$\mathrm{BN}_\epsilon(a x) = \mathrm{sign}(a)\,\mathrm{BN}_{\epsilon/a^2}(x)$ in train mode,
    apart from the bias, for every $a \ne 0$.
    """
    rng = np.random.default_rng(batch.seed)
    x, factor = random_batch(flow, rng), float(rng.choice(FACTORS))
    eps = float(rng.choice((1e-5, 1e-3, 0.1)))
    one, size = centered(output(flow, factor * x, Assign("eps", eps), Train()))
    other, _ = centered(output(flow, x, Assign("eps", eps / factor**2), Train()))
    note = f"scaling the input by {factor:g} does not act as scaling eps by {factor**-2:g}"
    return batch_residual(apart(one, np.sign(factor) * other, size), note)


@batch_norm_law(
    "batch-norm/shift-law",
    applies=normalizes,
    source="the mean of the batch moves with the batch",
)
def shift_law(flow: BatchNormal, batch: Batch) -> Residual:
    r"""$\mathrm{BN}(x + c) = \mathrm{BN}(x)$ in train mode, for any constant $c$ per channel."""
    rng = np.random.default_rng(batch.seed)
    x = random_batch(flow, rng)
    moved = x + wide(np.sqrt(moments(x)[1]) * rng.choice((-20.0, 0.5, 5.0), channels(flow)), x)
    one, other = (output(flow, points, Train()) for points in (x, moved))
    return batch_residual(
        apart(other, one, largest(one) + centered(one)[1]),
        "a constant added to a channel changes the output",
    )


@batch_norm_law(
    "batch-norm/permutation-equivariance",
    applies=usual,
    source="mean and variance of a batch are symmetric in its samples",
)
def permutation_equivariance(flow: BatchNormal, batch: Batch) -> Residual:
    """Samples in another order give the same outputs in that order, and the same state afterwards,
    in train mode.
    """
    rng = np.random.default_rng(batch.seed)
    x = random_batch(flow, rng)
    order = rng.permutation(len(x))
    _, y, state = flow.play([Train(), Normalize(x), State()])
    _, other, after = flow.play([Train(), Normalize(x[order]), State()])
    value = np.append(apart(other, y[order], largest(y) + centered(y)[1]), state_gap(state, after))
    return batch_residual(value, "the order of the samples matters")


@requires("its events have one position")
def has_positions(flow: BatchNormal) -> bool:
    """Events have positions beside their channels."""
    return int(np.prod(flow.event_shape[1:])) > 1


@batch_norm_law(
    "batch-norm/positions-are-samples",
    applies=usual & has_positions,
    source="Ioffe and Szegedy 2015, section 3.2: all positions of a feature map are normalized together",
)
def positions_are_samples(flow: BatchNormal, batch: Batch) -> Residual:
    """In train mode a channel is normalized over samples and positions alike: values moved among
    them, in each channel on its own, are normalized to the same.
    """
    rng = np.random.default_rng(batch.seed)
    x = random_batch(flow, rng)
    orders = [rng.permutation(x[:, 0].size) for _ in range(channels(flow))]
    _, y, state = flow.play([Train(), Normalize(x), State()])
    _, other, after = flow.play([Train(), Normalize(moved_about(x, orders)), State()])
    value = np.append(
        apart(other, moved_about(y, orders), largest(y) + centered(y)[1]), state_gap(state, after)
    )
    return batch_residual(value, "a value's position in its channel matters")


def moved_about(x: Array, orders: list[Array]) -> Array:
    """The values of each channel in another order over batch and positions."""
    rows = np.moveaxis(x, 1, 0)
    moved = np.stack(
        [row.reshape(-1)[order].reshape(row.shape) for row, order in zip(rows, orders, strict=True)]
    )
    return np.moveaxis(moved, 0, 1)


@requires("it has one channel")
def has_channels(flow: BatchNormal) -> bool:
    """There is more than one channel."""
    return channels(flow) > 1


@batch_norm_law(
    "batch-norm/channel-independence",
    applies=usual & has_channels,
    source="Ioffe and Szegedy 2015, section 3: each feature is normalized independently",
)
def channel_independence(flow: BatchNormal, batch: Batch) -> Residual:
    """In train mode another content of one channel changes the output of that channel only."""
    rng = np.random.default_rng(batch.seed)
    x, other = random_batch(flow, rng, 7), random_batch(flow, rng, 7)
    channel = int(rng.integers(channels(flow)))
    changed = x.copy()
    changed[:, channel] = other[:, channel]
    one, two = (output(flow, points, Train()) for points in (x, changed))
    value = apart(two, one, largest(one) + centered(one)[1])
    value[channel] = 0.0
    return batch_residual(value, f"channel {channel} enters other channels")


@batch_norm_law(
    "batch-norm/nan-containment",
    tolerance=EXACT,
    applies=usual & has_channels,
    effort=2,
    scales=(0.0, 0.3),
    source="each feature is normalized independently, so that what is not a number spoils its own channel only",
)
def nan_containment(flow: BatchNormal, batch: Batch) -> Residual:
    """In train mode a nan in one channel leaves outputs and running statistics of all other
    channels finite.
    """
    rng = np.random.default_rng(batch.seed)
    x = random_batch(flow, rng, 6)
    channel = int(rng.integers(channels(flow)))
    x[int(rng.integers(6)), channel] = np.nan
    _, y, roles = flow.play([Train(), Normalize(x), Roles()])
    statistics = Parameters.of(flow, roles).statistics
    others = np.arange(channels(flow)) != channel
    bad = [] if np.isfinite(per_channel(y)[others].astype(np.float64)).all() else ["outputs"]
    bad += [name for name in statistics if not np.isfinite(statistics[name][others]).all()]
    return flags(
        bool(bad), 1, f"a nan in channel {channel} reached {', '.join(bad)} of other channels"
    )


def ends(y: Array) -> Array:
    """Where outputs are the largest or the smallest, as those are that are cut off."""
    return np.asarray((y == np.max(y)) | (y == np.min(y)))


@batch_norm_law(
    "batch-norm/eval-affine-map",
    applies=usual & keeps_some_statistics,
    effort=6,
    source="Ioffe and Szegedy 2015, algorithm 2: with fixed statistics normalization is one affine map per channel",
)
def eval_affine_map(flow: BatchNormal, batch: Batch) -> Residual:
    """In eval mode every channel of the output is one fixed affine function of the same entry of
    the input.
    """
    rng = np.random.default_rng(batch.seed)
    x, other = random_batch(flow, rng, 6), random_batch(flow, rng, 6)
    part = float(rng.uniform(0.2, 0.8))
    points = (x, other, part * x + (1 - part) * other, np.zeros_like(x), np.ones_like(x))
    _, one, two, between, origin, ones = flow.play([Eval(), *(Normalize(each) for each in points)])
    size = largest(one) + largest(two) + largest(origin)
    slope, level = per_channel(ones - origin)[:, 0], per_channel(origin)[:, 0]
    line = wide(slope.astype(np.float64), x) * x + wide(level.astype(np.float64), x)
    size_line = size + np.abs(slope.astype(np.float64)) * largest(x) + largest(ones)
    mixed = part * one + (1 - part) * two
    if flow.normalizer.declared.get("clipped"):
        mixed = np.where(ends(one) | ends(two) | ends(between), between, mixed)
        line = np.where(ends(one), one, line)
    value = np.stack([apart(between, mixed, size), apart(one, line, size_line)])
    return batch_residual(
        value,
        "in eval mode it is no fixed affine map per channel",
        slope=ratio(slope, np.ones(len(slope))),
    )
