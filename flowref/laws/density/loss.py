"""Numbers derived from log-densities: bits per dimension, and the training loss."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from flowref.laws.bijection.oracles import log_det_tolerance
from flowref.laws.common.arithmetic import finite_rows
from flowref.laws.common.outcomes import attempt
from flowref.laws.common.requirements import exact_log_det
from flowref.model import VOLUME, Array, Batch, Residual, Undecidable, Unsupported, law
from flowref.model.abilities import BitsPerDim, Density, Dequantizer, Flow, Losses, offers


class BitsPerDimDensity(BitsPerDim, Density, Protocol):
    """A density that also returns bits per dimension."""


class TrainedDensity(Density, Losses, Protocol):
    """A density with its training loss."""


BITS = "a code spends -log2 P bits on a level of probability P; Theis et al. (arXiv:1511.01844), section 3.1"
# Relative error up to which numbers count as equal.
SAME = 1e-4
LOSS = "maximum likelihood: the mean over the batch of -log p(x)"


def level_of(flow: Flow) -> float:
    """The distance of two quantization levels in units of the data, as it is declared, or as its own
    dequantization has it; 0 if neither.
    """
    if flow.promises.get("level"):
        return float(flow.promises["level"])
    declared = flow.facts.preprocessing
    if declared is not None and declared.bins:
        return declared.bound / declared.bins
    return level_of_dequantization(flow) if offers(flow, Dequantizer) else 0.0


def level_of_dequantization(flow: Dequantizer) -> float:
    """The distance of the reals of successive levels; 0 if they are not the same distance apart everywhere, or
    levels stay as they are, and data may be scaled elsewhere.
    """
    levels = np.arange(4.0).reshape(4, *[1] * len(flow.event_shape)) * np.ones(
        (4, *flow.event_shape)
    )
    reals, refused = attempt(flow.dequantize, levels, np.full(levels.shape, 0.5))
    if refused or np.shape(reals) != levels.shape:
        return 0.0
    apart = np.diff(np.asarray(reals, np.float64), axis=0)
    level = float(apart.flat[0])
    same = np.abs(apart - level).max() < SAME * abs(level)
    return level if same and 0 < level < 1 else 0.0


@law(
    "density/units[bits-per-dim]",
    key="density/bits-per-dim",
    version=2,
    about=VOLUME,
    points="data",
    local=False,
    effort=4,
    source=BITS,
)
def bits_per_dim(flow: BitsPerDimDensity, batch: Batch) -> Residual:
    r"""Bits per dimension are $-(\log p(x) + D \log w) / (D \log 2)$ for levels $w$ apart; data
    uniform on $[0, b]$ have $\log_2(b / w)$. $w$ is declared, or that of its own dequantization; up to a
    constant if neither.
    """
    rows, size, level = len(batch.x), math.prod(flow.density_shape), level_of(flow)
    density = np.asarray(flow.log_prob(batch.x, batch.context), dtype=np.float64).reshape(rows)
    bits = np.asarray(flow.bits_per_dim(batch.x, batch.context), dtype=np.float64)
    expected = -(density / size + math.log(level or 1.0)) / math.log(2)
    uniform = flow.promises.get("uniform-data")
    if uniform:
        # Known without a density.
        expected = np.full(rows, math.log2(float(uniform) / level))
    if bits.size not in (1, rows):
        note = f"bits per dimension of {rows} points came back in shape {bits.shape}"
        return Residual(np.full(rows, np.inf), note=note)
    if not in_any_order(flow, batch, bits):
        raise Unsupported("its bits per dimension are drawn, as those of levels with noise are")
    if not (level or uniform):
        return up_to_a_constant(flow, batch, bits, expected)
    if bits.size == 1:  # a single number is the mean of the batch
        expected, bits = np.full(rows, expected.mean()), np.full(rows, float(bits.reshape(-1)[0]))
    bits = bits.reshape(rows)
    return Residual(
        bits - expected,
        scale=4 + np.abs(expected),
        decidable=finite_rows(expected),
        observed={"bits per dimension": bits, "expected": expected},
    )


def in_any_order(flow: BitsPerDimDensity, batch: Batch, bits: Array) -> bool:
    """Whether points keep their bits in another order, which random bits do not."""
    last_first = batch.rows(slice(None, None, -1))
    again = np.asarray(flow.bits_per_dim(last_first.x, last_first.context), dtype=np.float64)
    again = again[::-1] if again.size == len(batch.x) else again
    return again.shape == bits.shape and np.allclose(
        again, bits, rtol=SAME, atol=SAME, equal_nan=True
    )


def up_to_a_constant(
    flow: BitsPerDimDensity, batch: Batch, bits: Array, expected: Array
) -> Residual:
    """The residual of bits per dimension minus those for levels one apart, which should be
    constant.
    """
    rows = len(batch.x)
    if bits.size != rows:  # one number per batch: evaluate each point by itself
        each = [flow.bits_per_dim(*batch.rows(slice(row, row + 1))[:2]) for row in range(rows)]
        bits = np.array([float(np.ravel(one)[0]) for one in each])
    bits = bits.reshape(rows)
    usable = finite_rows(expected)
    offset = bits - expected
    first = offset[usable][0] if usable.any() else 0.0
    return Residual(
        np.where(usable, offset - first, 0.0),
        scale=4 + np.abs(expected) + (np.abs(expected[usable][0]) if usable.any() else 0.0),
        decidable=usable & (np.arange(rows) > 0),
        observed={"bits per dimension": bits, "expected, up to a constant": expected},
    )


def _usable(flow: Density, batch: Batch) -> tuple[Array, Array | None, Array]:
    """Points with finite log-density, their contexts and log-densities. Raises `Undecidable` if
    there are none.
    """
    density = np.asarray(flow.log_prob(batch.x, batch.context), dtype=np.float64).reshape(
        len(batch.x)
    )
    kept = np.isfinite(density)
    if not kept.any():
        raise Undecidable("no point has a finite log-density")
    return batch.x[kept], None if batch.context is None else batch.context[kept], density[kept]


def within_accuracy(flow: Flow, density: Array) -> float:
    """The difference of two mean log-densities within the declared accuracy of the solver, which
    may choose its steps per batch.
    """
    return 2 * float(log_det_tolerance(flow, density).mean())


@law(
    "density/loss[penalty]",
    key="density/loss-excludes-penalty",
    version=2,
    nats=True,
    about=VOLUME,
    points="data",
    history="fresh",
    local=False,
    effort=4,
    applies=exact_log_det,
    source=LOSS,
)
def loss_excludes_penalty(flow: TrainedDensity, batch: Batch) -> Residual:
    r"""The reported negative log-likelihood is the mean of $-\log p(x)$, for every weight of the
    penalty.
    """
    x, context, density = _usable(flow, batch)
    losses = [flow.loss(x, context, weight) for weight in (0.0, 1.0)]
    penalty = losses[1][1]
    if not penalty:
        raise Unsupported("its loss has no penalty, or one of zero, which shows nothing")
    gaps = [nll + float(density.mean()) for nll, _ in losses]
    rows = len(batch.x)
    return Residual(
        np.tile(gaps, (rows, 1)),
        scale=4 + float(np.abs(density).mean()),
        allowed=within_accuracy(flow, density),
        observed={
            "reported negative log-likelihood": np.full(rows, losses[1][0]),
            "mean of -log p": np.full(rows, -float(density.mean())),
            "penalty": np.full(rows, penalty),
        },
    )


@law(
    "density/loss[batch-mean]",
    key="density/loss-batch-mean",
    version=2,
    nats=True,
    about=VOLUME,
    points="data",
    local=False,
    effort=4,
    applies=exact_log_det,
    source=LOSS,
)
def loss_batch_mean(flow: TrainedDensity, batch: Batch) -> Residual:
    """The negative log-likelihood of a batch is the mean over its points, and over its parts
    weighted by their size.
    """
    x, context, density = _usable(flow, batch)
    rows = len(x)
    # The first part is larger, as the last batch of an epoch is smaller.
    cut = max(1, rows - max(1, rows // 3))
    pieces = [slice(0, cut), slice(cut, rows)] if rows > 1 else [slice(0, 1)]
    whole = flow.loss(x, context, 0.0)[0]
    total = sum(
        len(x[piece]) * flow.loss(x[piece], None if context is None else context[piece], 0.0)[0]
        for piece in pieces
    )
    gaps = [whole - total / rows, whole + float(density.mean())]
    return Residual(
        np.tile(gaps, (len(batch.x), 1)),
        scale=4 + float(np.abs(density).mean()),
        allowed=within_accuracy(flow, density),
        observed={
            "of the batch": np.full(len(batch.x), whole),
            "of its parts": np.full(len(batch.x), total / rows),
            "mean of -log p": np.full(len(batch.x), -float(density.mean())),
        },
    )
