"""Laws of what a batch normalizer accepts: ranks, channels, single values, empty batches; and of
its options.
"""

from __future__ import annotations

import numpy as np

from flowref.laws.batch_norm.affine import unexplained
from flowref.laws.batch_norm.arithmetic import apart, largest, moments, single, standardized
from flowref.laws.batch_norm.conditions import channelled, normalizes, tracks, usual
from flowref.laws.batch_norm.declaring import batch_norm_advice, batch_norm_law, batch_residual
from flowref.laws.batch_norm.normalizer import (
    MODES,
    STATISTICS,
    Parameters,
    channels,
    epsilon,
    measured_freedom,
    normal_batch,
    output,
    random_batch,
)
from flowref.laws.common.outcomes import attempt, flags, listed
from flowref.model import Array, Batch, Residual, Unsupported, requires
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Eval, Normalize, Roles, Train

TORCH = "torch.nn.BatchNorm1d, BatchNorm2d and BatchNorm3d"
# Ranks of a batch that are tried, and their positions besides (batch, channels).
RANKS = (2, 3, 4, 5)


def one_value(flow: BatchNormal, seed: int) -> Array:
    """A batch of one sample with one position."""
    shape = (1, channels(flow), *[1] * (len(flow.event_shape) - 1))
    return single(np.random.default_rng(seed).standard_normal(shape))


def words(role: str) -> str:
    """A role for a sentence."""
    return role.replace("_", " ")


@batch_norm_advice(
    "batch-norm/single-value-refused",
    applies=usual,
    source=f"{TORCH} raise ValueError: one value is its own mean, and the output would be the bias whatever comes in",
)
def single_value_refused(flow: BatchNormal, batch: Batch) -> Residual:
    """A train-mode batch of one value per channel raises an error, or the documentation says that
    it is accepted.
    """
    if flow.normalizer.declared.get("single") == "accepted":
        raise Unsupported("its documentation says that one value per channel is accepted")
    _, error = attempt(flow.play, [Train(), Normalize(one_value(flow, batch.seed))])
    return flags(
        not error, 1, "one value per channel is normalized in train mode: the output is the bias"
    )


# This law and those of empty batches and of the number of channels are advice: they speak of
# batches that no paper does, and a layer that takes such a batch is right on all others.
@batch_norm_advice(
    "batch-norm/single-value-keeps-statistics",
    applies=tracks,
    source="the unbiased variance of one value is 0/0",
)
def single_value_keeps_statistics(flow: BatchNormal, batch: Batch) -> Residual:
    """A train-mode batch of one value per channel raises an error or leaves the running statistics
    finite.
    """
    x = one_value(flow, batch.seed)
    life, error = attempt(flow.play, [Roles(), Train(), Normalize(x), Roles()])
    if error:
        return flags(False, 1)
    before, after = (Parameters.of(flow, roles).statistics for roles in (life[0], life[3]))
    bad = [
        words(role)
        for role in before
        if np.isfinite(before[role]).all() and not np.isfinite(after.get(role, 0.0)).all()
    ]
    return flags(
        bool(bad), 1, f"after one value per channel it holds nan or inf in its {listed(bad)}"
    )


@batch_norm_advice(
    "batch-norm/empty-batch",
    applies=usual,
    source=f"{TORCH} return an empty batch and leave the running statistics as they are",
)
def empty_batch(flow: BatchNormal, batch: Batch) -> Residual:
    """A train-mode batch without samples raises an error, or returns an empty batch and leaves the
    running statistics as they are.
    """
    x = np.zeros((0, *flow.event_shape))
    life, error = attempt(flow.play, [Roles(), Train(), Normalize(x), Roles()])
    if error:
        return flags(False, 1)
    before, after = (Parameters.of(flow, roles).statistics for roles in (life[0], life[3]))
    moved = [
        words(role)
        for role, values in before.items()
        if role not in after or not np.array_equal(values, after[role])
    ]
    shape = np.shape(life[2])
    note = (
        f"an empty batch changed its {listed(moved)}"
        if moved
        else f"an empty batch came back as {shape}"
    )
    return flags(bool(moved) or shape != x.shape, 1, note)


@requires("it holds nothing per channel, and takes any number of channels")
def has_size(flow: BatchNormal) -> bool:
    """Something is kept for each channel, so that their number is known."""
    return bool({*STATISTICS, "weight", "bias"} & set(flow.normalizer.roles))


@batch_norm_advice(
    "batch-norm/channel-count",
    applies=usual & has_size,
    source=f"{TORCH} refuse a wrong number of channels; parameters of shape (1, C, 1, 1) broadcast against one channel",
)
def channel_count(flow: BatchNormal, batch: Batch) -> Residual:
    """A batch with another number of channels raises an error in train and in eval mode; it is
    never broadcast.
    """
    rng, count = np.random.default_rng(batch.seed), channels(flow)
    taken = []
    for other in sorted({1, count - 1, count + 1, 2 * count} - {count, 0}):
        x = single(rng.standard_normal((6, other, *flow.event_shape[1:])))
        for mode, step in MODES.items():
            y, error = attempt(output, flow, x, step)
            if not error:
                taken.append(f"{other} channels in {mode} mode (and returned {np.shape(y)})")
    return flags(bool(taken), 1, f"a layer of {count} channels accepted {listed(taken)}")


@batch_norm_advice(
    "batch-norm/ranks",
    applies=channelled,
    source=f"{TORCH} check the rank in every mode; a check in train mode alone lets eval mode broadcast along a wrong axis",
)
def ranks(flow: BatchNormal, batch: Batch) -> Residual:
    """A batch of a rank that is refused in one mode is refused in the other."""
    rng, count, odd = np.random.default_rng(batch.seed), channels(flow), []
    for rank in RANKS:
        # Positions as many as channels: what broadcasts along a wrong axis then fits.
        x = single(rng.standard_normal((4 * count, *[count] * (rank - 1))))
        taking = [mode for mode, step in MODES.items() if not attempt(output, flow, x, step)[1]]
        if len(taking) == 1:
            odd.append(f"rank {rank} in {taking[0]} mode only")
    return flags(bool(odd), 1, f"it accepts {listed(odd)}")


@requires("it has a weight or a bias")
def has_no_affine(flow: BatchNormal) -> bool:
    """Neither weight nor bias."""
    return not {"weight", "bias"} & set(flow.normalizer.roles)


@requires("it has parameters that are not known")
def has_no_other_parameters(flow: BatchNormal) -> bool:
    """Nothing that could be weight or bias under another name."""
    return not (flow.trainable or unexplained(flow))


@batch_norm_law(
    "batch-norm/without-affine",
    applies=has_no_affine & has_no_other_parameters & normalizes,
    effort=3,
    scales=(0.0,),
    source=f"{TORCH}: affine=False",
)
def without_affine(flow: BatchNormal, batch: Batch) -> Residual:
    r"""Without weight and bias, train mode returns $\hat x = (x - \mu) / \sqrt{v + \epsilon}$
    itself.
    """
    x = random_batch(flow, np.random.default_rng(batch.seed))
    roles, _, y = flow.play([Roles(), Train(), Normalize(x)])
    parameters = Parameters.of(flow, roles)
    mean, var = moments(x, measured_freedom(flow, parameters))
    hat = standardized(x, mean, var, epsilon(flow, parameters))
    return batch_residual(apart(y, hat, 1 + largest(hat)), "the output is not the normalized input")


@requires("it keeps running statistics")
def has_no_statistics(flow: BatchNormal) -> bool:
    """No running statistics."""
    return not set(STATISTICS) & set(flow.normalizer.roles)


@requires("what it normalizes by in eval mode is not known")
def has_no_other_statistics(flow: BatchNormal) -> bool:
    """Nothing that could be running statistics under another name."""
    return bool(flow.promises.get("batch-statistics")) and not unexplained(flow)


@batch_norm_law(
    "batch-norm/without-tracking",
    applies=has_no_statistics & has_no_other_statistics & normalizes,
    effort=3,
    scales=(0.0, 0.3),
    source=f"{TORCH}: track_running_stats=False",
)
def without_tracking(flow: BatchNormal, batch: Batch) -> Residual:
    """Without running statistics, eval mode normalizes by the batch, as train mode does."""
    x = normal_batch(flow, np.random.default_rng(batch.seed), 7)
    trained, evaluated = output(flow, x, Train()), output(flow, x, Eval())
    value = apart(evaluated, trained, largest(trained))
    return batch_residual(value, "eval mode does not normalize by the batch")
