"""Laws of what a batch normalizer accepts: ranks, channels, single values, empty batches; and of
its options.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flowref.laws.batch_norm.layer import channelled, normalizes, tracks, unexplained, usual
from flowref.laws.batch_norm.oracle import (
    Held,
    Steps,
    apart,
    channels,
    drawn,
    epsilon,
    held,
    largest,
    measured_freedom,
    moments,
    normalizer_law,
    ordinary,
    play,
    single,
    spec,
    standardized,
    told,
)
from flowref.laws.common.outcomes import attempt, flags, listed
from flowref.model import ADVICE, EXACT, Array, Batch, Residual, Unsupported
from flowref.model.abilities import BatchNormal, Flow
from flowref.model.steps import Normalize, Roles, Train

TORCH = "torch.nn.BatchNorm1d, BatchNorm2d and BatchNorm3d"
STATISTICS = ("running_mean", "running_var")
# Ranks of a batch that are tried, and their positions besides (batch, channels).
RANKS = (2, 3, 4, 5)


def one_value(flow: Flow, seed: int) -> Array:
    """A batch of one sample with one position."""
    shape = (1, channels(flow), *[1] * (len(flow.event_shape) - 1))
    return single(np.random.default_rng(seed).standard_normal(shape))


def spoilt(before: Held, after: Held) -> list[str]:
    """The running statistics that hold what is not finite, and did not before."""
    found = []
    for name in STATISTICS:
        old, new = getattr(before, name), getattr(after, name)
        if (
            new is not None
            and old is not None
            and np.isfinite(old).all()
            and not np.isfinite(new).all()
        ):
            found.append(name.replace("_", " "))
    return found


@normalizer_law(
    "batch-norm/single-value-refused",
    former="normalisation/single-value-refused",
    force=ADVICE,
    tolerance=EXACT,
    applies=usual,
    effort=1,
    scales=(0.0,),
    source=f"{TORCH} raise ValueError: one value is its own mean, and the output would be the bias whatever comes in",
)
def single_value_refused(flow: BatchNormal, batch: Batch) -> Residual:
    """A train-mode batch of one value per channel raises an error, or the documentation says that
    it is accepted.
    """
    if spec(flow).declared.get("single") == "accepted":
        raise Unsupported("its documentation says that one value per channel is accepted")
    _, error = attempt(play, flow, [Train(), Normalize(one_value(flow, batch.seed))])
    return flags(
        not error, 1, "one value per channel is normalized in train mode: the output is the bias"
    )


# This law and those of empty batches and of the number of channels are advice: they speak of
# batches that no paper does, and a layer that takes such a batch is right on all others.
@normalizer_law(
    "batch-norm/single-value-keeps-statistics",
    former="normalisation/single-value-keeps-statistics",
    force=ADVICE,
    tolerance=EXACT,
    applies=tracks,
    effort=1,
    scales=(0.0,),
    source="the unbiased variance of one value is 0/0",
)
def single_value_keeps_statistics(flow: BatchNormal, batch: Batch) -> Residual:
    """A train-mode batch of one value per channel raises an error or leaves the running statistics
    finite.
    """
    steps: Steps = [
        Roles(),
        Train(),
        Normalize(one_value(flow, batch.seed)),
        Roles(),
    ]
    played, error = attempt(play, flow, steps)
    if error:
        return flags(False, 1)
    bad = spoilt(held(played[0]), held(played[3]))
    return flags(
        bool(bad), 1, f"after one value per channel it holds nan or inf in its {listed(bad)}"
    )


@normalizer_law(
    "batch-norm/empty-batch",
    former="normalisation/empty-batch",
    force=ADVICE,
    tolerance=EXACT,
    applies=usual,
    effort=1,
    scales=(0.0,),
    source=f"{TORCH} return an empty batch and leave the running statistics as they are",
)
def empty_batch(flow: BatchNormal, batch: Batch) -> Residual:
    """A train-mode batch without samples raises an error, or returns an empty batch and leaves the
    running statistics as they are.
    """
    x = np.zeros((0, *flow.event_shape))
    played, error = attempt(play, flow, [Roles(), Train(), Normalize(x), Roles()])
    if error:
        return flags(False, 1)
    before, after, y = held(played[0]), held(played[3]), played[2]
    moved = [
        name.replace("_", " ")
        for name in STATISTICS
        if getattr(before, name) is not None
        and not np.array_equal(getattr(before, name), getattr(after, name))
    ]
    note = (
        f"an empty batch changed its {listed(moved)}"
        if moved
        else f"an empty batch came back as {np.shape(y)}"
    )
    return flags(bool(moved) or np.shape(y) != x.shape, 1, note)


def sized(flow: Flow) -> str | None:
    """Something is held for each channel, so that their number is known."""
    reason = usual(flow)
    if reason is None and not {*STATISTICS, "weight", "bias"} & set(spec(flow).roles):
        reason = "it holds nothing per channel, and takes any number of channels"
    return reason


@normalizer_law(
    "batch-norm/channel-count",
    former="normalisation/channel-count",
    force=ADVICE,
    tolerance=EXACT,
    applies=sized,
    effort=1,
    scales=(0.0,),
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
        for mode in ("train", "eval"):
            played, error = attempt(play, flow, [(mode,), Normalize(x)])
            if not error:
                taken.append(
                    f"{other} channels in {mode} mode (and returned {np.shape(played[-1])})"
                )
    return flags(bool(taken), 1, f"a layer of {count} channels accepted {listed(taken)}")


@normalizer_law(
    "batch-norm/ranks",
    former="normalisation/ranks",
    force=ADVICE,
    tolerance=EXACT,
    applies=channelled,
    effort=1,
    scales=(0.0,),
    source=f"{TORCH} check the rank in every mode; a check in train mode alone lets eval mode broadcast along a wrong axis",
)
def ranks(flow: BatchNormal, batch: Batch) -> Residual:
    """A batch of a rank that is refused in one mode is refused in the other."""
    rng, count, odd = np.random.default_rng(batch.seed), channels(flow), []
    for rank in RANKS:
        # Positions as many as channels: what broadcasts along a wrong axis then fits.
        x = single(rng.standard_normal((4 * count, *[count] * (rank - 1))))
        errors = [attempt(play, flow, [(mode,), Normalize(x)])[1] for mode in ("train", "eval")]
        if bool(errors[0]) != bool(errors[1]):
            odd.append(f"rank {rank} in {'eval' if errors[0] else 'train'} mode only")
    return flags(bool(odd), 1, f"it accepts {listed(odd)}")


def plain(flow: Flow) -> str | None:
    """Neither weight nor bias, nor anything that could be one under another name."""
    if {"weight", "bias"} & set(spec(flow).roles):
        return "it has a weight or a bias"
    if flow.trainable or unexplained(flow):
        return "it has parameters that are not known"
    return normalizes(flow)


@normalizer_law(
    "batch-norm/without-affine",
    former="normalisation/without-affine",
    applies=plain,
    effort=3,
    scales=(0.0,),
    source=f"{TORCH}: affine=False",
)
def without_affine(flow: BatchNormal, batch: Batch) -> Residual:
    r"""Without weight and bias, train mode returns $\hat x = (x - \mu) / \sqrt{v + \epsilon}$
    itself.
    """
    x = drawn(flow, np.random.default_rng(batch.seed))
    roles, _, y = play(flow, [Roles(), Train(), Normalize(x)])
    known = held(roles)
    hat = standardized(x, *moments(x, measured_freedom(flow, known)), epsilon(flow, known))
    return told(apart(y, hat, 1 + largest(hat)), "the output is not the normalized input")


def untracked(flow: Flow) -> str | None:
    """No running statistics, nor anything that could be them under another name."""
    known: Any = spec(flow).roles
    if set(STATISTICS) & set(known):
        return "it keeps running statistics"
    if not flow.promises.get("batch-statistics") or unexplained(flow):
        return "what it normalizes by in eval mode is not known"
    return normalizes(flow)


@normalizer_law(
    "batch-norm/without-tracking",
    former="normalisation/without-tracking",
    applies=untracked,
    effort=3,
    scales=(0.0, 0.3),
    source=f"{TORCH}: track_running_stats=False",
)
def without_tracking(flow: BatchNormal, batch: Batch) -> Residual:
    """Without running statistics, eval mode normalizes by the batch, as train mode does."""
    x = ordinary(flow, np.random.default_rng(batch.seed), 7)
    (_, trained), (_, calm) = (play(flow, [(mode,), Normalize(x)]) for mode in ("train", "eval"))
    return told(apart(calm, trained, largest(trained)), "eval mode does not normalize by the batch")
