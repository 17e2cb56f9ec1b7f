"""Laws of how the output of a batch normalizer answers to changes of its input: scales, shifts,
orders, other channels.
"""

from __future__ import annotations

import numpy as np

from flowref.laws.batch_norm.layer import both, effective, normalizes, tracks, usual
from flowref.laws.batch_norm.oracle import (
    apart,
    channels,
    drawn,
    held,
    largest,
    moments,
    normalizer_law,
    per_channel,
    play,
    ratio,
    told,
    wide,
)
from flowref.laws.common.outcomes import flags, state_gap
from flowref.model import EXACT, Array, Batch, Residual
from flowref.model.abilities import BatchNormal, Flow
from flowref.model.steps import Assign, Eval, Normalize, Roles, State, Train

FACTORS = (-1.0, 0.03, -0.5, 7.0, -40.0)


def centered(y: Array) -> tuple[Array, Array]:
    """An output without its mean per channel, which is the bias, and its size per channel."""
    middle = y - wide(moments(y)[0], y)
    return middle, largest(y) + largest(middle)


@normalizer_law(
    "batch-norm/scale-law",
    former="normalisation/scale-law",
    applies=both(normalizes, effective("eps", (1e-3, 1e-2))),
    effort=6,
    source="Ioffe and Szegedy 2015, section 3.3, BN((aW)u) = BN(Wu), made exact for every eps and every sign",
)
def scale_law(flow: BatchNormal, batch: Batch) -> Residual:
    r"""$\mathrm{BN}_\epsilon(a x) = \mathrm{sign}(a)\,\mathrm{BN}_{\epsilon/a^2}(x)$ in train mode,
    apart from the bias, for every $a \ne 0$.
    """
    rng = np.random.default_rng(batch.seed)
    x, factor = drawn(flow, rng), float(rng.choice(FACTORS))
    eps = float(rng.choice((1e-5, 1e-3, 0.1)))
    outcomes = []
    for points, constant in ((factor * x, eps), (x, eps / factor**2)):
        outcomes.append(play(flow, [Assign("eps", constant), Train(), Normalize(points)])[-1])
    (one, size), (other, _) = centered(outcomes[0]), centered(outcomes[1])
    note = f"scaling the input by {factor:g} does not act as scaling eps by {factor**-2:g}"
    return told(apart(one, np.sign(factor) * other, size), note)


@normalizer_law(
    "batch-norm/shift-law",
    former="normalisation/shift-law",
    applies=normalizes,
    effort=4,
    source="the mean of the batch moves with the batch",
)
def shift_law(flow: BatchNormal, batch: Batch) -> Residual:
    r"""$\mathrm{BN}(x + c) = \mathrm{BN}(x)$ in train mode, for any constant $c$ per channel."""
    rng = np.random.default_rng(batch.seed)
    x = drawn(flow, rng)
    moved = x + wide(np.sqrt(moments(x)[1]) * rng.choice((-20.0, 0.5, 5.0), channels(flow)), x)
    one, other = (play(flow, [Train(), Normalize(points)])[-1] for points in (x, moved))
    return told(
        apart(other, one, largest(one) + centered(one)[1]),
        "a constant added to a channel changes the output",
    )


@normalizer_law(
    "batch-norm/permutation-equivariance",
    former="normalisation/permutation-equivariance",
    applies=usual,
    effort=4,
    source="mean and variance of a batch are symmetric in its samples",
)
def permutation_equivariance(flow: BatchNormal, batch: Batch) -> Residual:
    """Samples in another order give the same outputs in that order, and the same state afterwards,
    in train mode.
    """
    rng = np.random.default_rng(batch.seed)
    x = drawn(flow, rng)
    order = rng.permutation(len(x))
    _, y, state = play(flow, [Train(), Normalize(x), State()])
    _, other, after = play(flow, [Train(), Normalize(x[order]), State()])
    value = np.append(apart(other, y[order], largest(y) + centered(y)[1]), state_gap(state, after))
    return told(value, "the order of the samples matters")


def spatial(flow: Flow) -> str | None:
    """Events with positions beside their channels."""
    reason = usual(flow)
    positions = int(np.prod(flow.event_shape[1:]))
    return reason or (None if positions > 1 else "its events have one position")


@normalizer_law(
    "batch-norm/positions-are-samples",
    former="normalisation/positions-are-samples",
    applies=spatial,
    effort=4,
    source="Ioffe and Szegedy 2015, section 3.2: all positions of a feature map are normalized together",
)
def positions_are_samples(flow: BatchNormal, batch: Batch) -> Residual:
    """In train mode a channel is normalized over samples and positions alike: values moved among
    them, in each channel on its own, are normalized to the same.
    """
    rng = np.random.default_rng(batch.seed)
    x = drawn(flow, rng)
    orders = [rng.permutation(x[:, 0].size) for _ in range(channels(flow))]
    _, y, state = play(flow, [Train(), Normalize(x), State()])
    _, other, after = play(flow, [Train(), Normalize(moved_about(x, orders)), State()])
    value = np.append(
        apart(other, moved_about(y, orders), largest(y) + centered(y)[1]), state_gap(state, after)
    )
    return told(value, "a value's position in its channel matters")


def moved_about(x: Array, orders: list[Array]) -> Array:
    """The values of each channel in another order over batch and positions."""
    rows = np.moveaxis(x, 1, 0)
    moved = np.stack(
        [row.reshape(-1)[order].reshape(row.shape) for row, order in zip(rows, orders, strict=True)]
    )
    return np.moveaxis(moved, 0, 1)


def several(flow: Flow) -> str | None:
    """More than one channel."""
    return usual(flow) or (None if channels(flow) > 1 else "it has one channel")


@normalizer_law(
    "batch-norm/channel-independence",
    former="normalisation/channel-independence",
    applies=several,
    effort=4,
    source="Ioffe and Szegedy 2015, section 3: each feature is normalized independently",
)
def channel_independence(flow: BatchNormal, batch: Batch) -> Residual:
    """In train mode another content of one channel changes the output of that channel only."""
    rng = np.random.default_rng(batch.seed)
    x, other = drawn(flow, rng, 7), drawn(flow, rng, 7)
    place = int(rng.integers(channels(flow)))
    changed = x.copy()
    changed[:, place] = other[:, place]
    one, two = (play(flow, [Train(), Normalize(points)])[-1] for points in (x, changed))
    value = apart(two, one, largest(one) + centered(one)[1])
    value[place] = 0.0
    return told(value, f"channel {place} enters other channels")


@normalizer_law(
    "batch-norm/nan-containment",
    former="normalisation/nan-containment",
    tolerance=EXACT,
    applies=several,
    effort=2,
    scales=(0.0, 0.3),
    source="each feature is normalized independently, so that what is not a number spoils its own channel only",
)
def nan_containment(flow: BatchNormal, batch: Batch) -> Residual:
    """In train mode a nan in one channel leaves outputs and running statistics of all other
    channels finite.
    """
    rng = np.random.default_rng(batch.seed)
    x = drawn(flow, rng, 6)
    place = int(rng.integers(channels(flow)))
    x[int(rng.integers(6)), place] = np.nan
    _, y, roles = play(flow, [Train(), Normalize(x), Roles()])
    known = held(roles)
    others = np.arange(channels(flow)) != place
    bad = [] if np.isfinite(per_channel(y)[others].astype(np.float64)).all() else ["outputs"]
    for name in ("running_mean", "running_var"):
        kept = getattr(known, name)
        if kept is not None and not np.isfinite(kept[others]).all():
            bad.append(name)
    return flags(
        bool(bad), 1, f"a nan in channel {place} reached {', '.join(bad)} of other channels"
    )


@normalizer_law(
    "batch-norm/eval-affine-map",
    former="normalisation/eval-affine-map",
    applies=tracks,
    effort=6,
    source="Ioffe and Szegedy 2015, algorithm 2: with fixed statistics normalization is one affine map per channel",
)
def eval_affine_map(flow: BatchNormal, batch: Batch) -> Residual:
    """In eval mode every channel of the output is one fixed affine function of the same entry of
    the input.
    """
    rng = np.random.default_rng(batch.seed)
    x, other = drawn(flow, rng, 6), drawn(flow, rng, 6)
    part = float(rng.uniform(0.2, 0.8))
    points = (x, other, part * x + (1 - part) * other, np.zeros_like(x), np.ones_like(x))
    _, one, two, between, origin, ones = play(flow, [Eval(), *(Normalize(each) for each in points)])
    size = largest(one) + largest(two) + largest(origin)
    slope, level = per_channel(ones - origin)[:, 0], per_channel(origin)[:, 0]
    line = wide(slope.astype(np.float64), x) * x + wide(level.astype(np.float64), x)
    size_line = size + np.abs(slope.astype(np.float64)) * largest(x) + largest(ones)
    value = np.stack(
        [apart(between, part * one + (1 - part) * two, size), apart(one, line, size_line)]
    )
    return told(
        value,
        "in eval mode it is no fixed affine map per channel",
        slope=ratio(slope, np.ones(len(slope))),
    )
