"""Claims about the layers as modules: shapes and batches that they take, and what is missing."""

from __future__ import annotations

import contextlib
import inspect
import io
from typing import Any

import torch
from torch import nn

from batch_norm_page.claim import (
    MISSING,
    TRUE,
    UNSOUND,
    claim,
    mean_of,
    normal,
    number,
    outcome,
)
from flowref.reference import BatchNorm
from flowref_zoo.seeds.batch_norm import (
    AveragingBatchNorm,
    FlattenedBatchNorm,
    GradientModeBatchNorm,
)
from flowref_zoo.seeds.batch_norm_rows import ROWS


@claim("000-13", UNSOUND, *ROWS["000-13"].laws)
def shapes_of_images() -> str:
    """The input is flattened from axis 2 on, and meets parameters of shape (1, C, 1).

    Right for three, four and five axes, however they are laid out in memory. A batch of vectors has
    no axis 2; and the number of channels is never looked at, so that a layer of one channel takes
    any number.
    """
    layer = FlattenedBatchNorm(1, rows="000-13")
    taken = tuple(layer(normal(4, 3, 5, dtype=torch.float32)).shape)
    vectors = outcome(
        lambda: FlattenedBatchNorm(3, rows="000-13")(normal(4, 3, dtype=torch.float32))
    )
    refused = outcome(lambda: BatchNorm(1)(normal(4, 3, 5)))
    return f"a layer of one channel returns {taken} for an input of that shape (the reference: {refused}). Vectors: {vectors}."


@claim("002-11", UNSOUND, *ROWS["002-11"].laws)
def rank_in_training_only() -> str:
    """The number of axes is asserted, to be 2 or 4, when training.

    Not in inference, where sequences meet parameters that broadcast along the wrong axis, silently
    if the lengths happen to agree; and the number of channels is checked nowhere.
    """
    layer = GradientModeBatchNorm(3, 2, rows="002-11").eval()
    layer.moving_mean.copy_(torch.tensor([[0.0, 10.0, 20.0]]))
    x = normal(4, 3, 3, dtype=torch.float32) + torch.tensor([0.0, 10.0, 20.0]).reshape(1, 3, 1)
    with torch.no_grad():
        y, narrow = layer(x), layer(normal(4, 1, dtype=torch.float32))
    return (
        "in eval mode sequences of shape (4, 3, 3), with channel means 0, 10 and 20 that the "
        "averages know, come out with means "
        f"{', '.join(number(v) if abs(v) > 1 else 'about 0' for v in y.mean((0, 2)).tolist())}; "
        "an input of shape (4, 1) comes "
        f"out as {tuple(narrow.shape)}."
    )


@claim("000-20", UNSOUND, *ROWS["000-20"].laws)
def one_value() -> str:
    r"""Any batch is normalized, also one value per channel, or none.

    One value is its own mean: the output is $\beta$ whatever comes in, and nothing can be learnt.
    The mean of no values is nan, and stays in the averages for ever. torch and the reference refuse
    the first and pass over the second.
    """
    layer, rows = AveragingBatchNorm(3, rows="000-20"), normal(1, 3, 1, dtype=torch.float32)
    single = layer(rows).flatten().tolist()
    layer(torch.zeros(0, 3, 4))
    refused = outcome(lambda: BatchNorm(3, dtype=torch.float64)(normal(1, 3)))
    kept, torchs = BatchNorm(3), nn.BatchNorm1d(3)
    for known in (kept, torchs):
        known(torch.zeros(0, 3, 4))
    return (
        f"one value per channel gives {', '.join(number(v) for v in single)} (the reference: "
        f"{refused}). An empty batch leaves a "
        f"running mean of {number(layer.running_mean[0, 0, 0])}, in the reference of "
        f"{number(mean_of(kept))} and in torch of "
        f"{number(mean_of(torchs))}."
    )


@claim("002-14", UNSOUND, *ROWS["002-14"].laws)
def one_value_again() -> str:
    """Batches of one vector, or of none, are normalized as any other.

    As with one value per channel of an image.
    """
    layer = GradientModeBatchNorm(3, 2, rows="002-14")
    single = layer(normal(1, 3, dtype=torch.float32)).flatten().tolist()
    layer(torch.zeros(0, 3))
    return (
        f"one vector gives {', '.join(number(v) for v in single)}; an empty batch leaves a "
        "running mean "
        f"of {number(layer.moving_mean[0, 0])}."
    )


@claim("000-14", UNSOUND, *ROWS["000-14"].laws)
def prints() -> str:
    """The forward pass prints the shape of its result.

    Left in from trying out; a model with fifty such layers writes fifty lines per batch.
    """
    seen = io.StringIO()
    with contextlib.redirect_stdout(seen):
        FlattenedBatchNorm(3, rows="000-14")(normal(4, 3, 5, dtype=torch.float32))
    return f"{seen.getvalue().count(chr(10))} line on the standard output per call."


@claim("000-18", TRUE, "batch-norm/as-built[values]", "batch-norm/conventions[state-dict]")
def buffers() -> str:
    """The averages are buffers that start at 0 and 1, with momentum 0.1, as in torch.

    As values they are. But the names and shapes are others and the counter of batches is missing,
    so that weights cannot be exchanged with `nn.BatchNorm2d`.
    """
    layer, torchs = (
        AveragingBatchNorm(3, rows="000-17").state_dict(),
        nn.BatchNorm2d(3).state_dict(),
    )
    names = ", ".join(f"`{name}` {tuple(value.shape)}" for name, value in layer.items())
    starts = ", ".join(
        number(layer[name].flatten()[0]) for name in ("running_mean", "running_variance")
    )
    return (
        f"{names}, the last two of them starting at {starts}; `nn.BatchNorm2d` has "
        f"{', '.join(f'`{name}` {tuple(value.shape)}' for name, value in torchs.items())}."
    )


@claim(
    "000-21",
    MISSING,
    "batch-norm/statistics[buffers]",
    "batch-norm/train-map[reference]",
    "batch-norm/eval-map[without-tracking]",
    "map/finite[nan-channel]",
)
def missing_options() -> str:
    """There is no plain average, no way to do without parameters or averages, and no guard against
    nan.

    These are options of torch's layer, but for the last, which it does not have either: a single
    nan enters the averages of its channel and never leaves. That it stays within its channel is a
    law, and holds.
    """
    ours, theirs = (
        set(inspect.signature(kind).parameters) for kind in (AveragingBatchNorm, nn.BatchNorm2d)
    )
    absent = ", ".join(
        f"`{name}`" for name in sorted(theirs & {"affine", "track_running_stats"} - ours)
    )
    x = normal(8, 3, 4, dtype=torch.float32)
    spoiled = x.clone()
    spoiled[0, 0, 0] = torch.nan
    counts = []
    for layer in (AveragingBatchNorm(3, rows="000-17"), nn.BatchNorm1d(3)):
        for batch in (spoiled, *[x] * 100):
            layer(batch)
        counts.append(int(torch.as_tensor(layer.running_mean).isnan().sum()))
    return (
        f"{absent} are no arguments, and `momentum=None`: {outcome(lambda: AveragingBatchNorm(3, momentum=None)(x))}. 100 "  # type: ignore[arg-type]
        f"batches after one nan, {counts[0]} of 3 running means is nan; in torch {counts[1]}."
    )


@claim("002-15", MISSING)
def fixed_options() -> str:
    r"""$\epsilon = 10^{-5}$ and momentum 0.9 are written into the forward pass, and the averages
    are returned and assigned.

    Nothing is wrong with the numbers; whoever needs others has to change the code. Assigned
    averages are new tensors at every call, so that a reference to an old one no longer sees it
    move.
    """
    layer = GradientModeBatchNorm(3, 2)
    held = layer.moving_mean
    layer(5 + normal(8, 3, dtype=torch.float32))
    reference = BatchNorm(3)
    kept: Any = reference.running_mean
    reference(5 + normal(8, 3, dtype=torch.float32))
    return (
        f"a reference to the running mean taken before a call reads {number(held[0, 0])} after "
        "it, where the mean is "
        f"{number(layer.moving_mean[0, 0])}; with the reference layer it reads {number(kept[0])}, "
        "which is the mean."
    )
