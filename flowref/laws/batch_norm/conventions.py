"""Advice beyond the paper: undocumented departures of a batch normalizer from torch's conventions,
and accepted batches.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from flowref.laws.batch_norm.arithmetic import nearest_float32
from flowref.laws.batch_norm.averages import (
    EXPLAINS,
    KEEP,
    NEW,
    Convention,
    explained,
    random_history,
)
from flowref.laws.batch_norm.conditions import (
    averages,
    channelled,
    follows_torch,
    has_momentum,
    has_size,
    is_no_flow,
    normalizes,
    usual,
)
from flowref.laws.batch_norm.declaration import batch_norm_advice
from flowref.laws.batch_norm.formula import Parameters, scale_of
from flowref.laws.batch_norm.normalizer import MODES, number_of_channels, output
from flowref.laws.common.outcomes import attempt, flags, listed_names
from flowref.laws.common.requirements import as_built
from flowref.model import Array, Batch, Residual, Undecidable, Unsupported
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Normalize, Roles, State, Train

TORCH = "torch.nn.BatchNorm1d, BatchNorm2d and BatchNorm3d"
KEYS = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
# Ranks of a batch that are tried.
RANKS = (2, 3, 4, 5)

# Meaning of numbers.


def convention_of(flow: BatchNormal, batch: Batch) -> Convention:
    """The convention that explains the running statistics. Raises `Undecidable` if none does."""
    convention, gap = explained(random_history(flow, np.random.default_rng(batch.seed)))
    if not gap.max() < EXPLAINS:
        raise Undecidable(
            "no known convention explains its running statistics, which another law reports"
        )
    return convention


def undeclared(flow: BatchNormal, seen: bool, option: str, declared: str, note: str) -> Residual:
    """An exact residual: a departure that was observed but is not documented."""
    return flags(seen and flow.normalizer.declared.get(option) != declared, 1, note)


@batch_norm_advice(
    "batch-norm/conventions[momentum]",
    key="normalisation/momentum-convention",
    version=2,
    applies=averages & has_momentum,
    source=f"{TORCH}: new = (1 - momentum) old + momentum batch; Keras: new = momentum old + (1 - momentum) batch",
)
def momentum_convention(flow: BatchNormal, batch: Batch) -> Residual:
    """The momentum is the fraction with which a batch enters the running statistics, as in torch,
    or, if documented, the fraction of the old value that is kept.
    """
    found = convention_of(flow, batch).momentum
    if flow.normalizer.declared.get("momentum") == KEEP:
        turned = found == NEW and Parameters.of(flow).momentum != 0.5
        return flags(turned, 1, "the momentum is torch's, though that of the old value is declared")
    note = "the momentum is the fraction of the old value that is kept: one minus torch's"
    return undeclared(flow, found == KEEP, "momentum", KEEP, note)


@batch_norm_advice(
    "batch-norm/conventions[running-variance]",
    key="normalisation/running-variance-convention",
    applies=averages,
    source=f"Ioffe and Szegedy 2015, algorithm 2, and {TORCH}: the variance used in inference is the unbiased estimate",
)
def running_variance_convention(flow: BatchNormal, batch: Batch) -> Residual:
    """The running variance averages the unbiased variances of the batches, or, if documented, the
    biased ones.
    """
    biased = convention_of(flow, batch).freedom == 0
    note = "the running variance averages biased variances: (n - 1)/n times torch's"
    return undeclared(flow, biased, "running_var", "biased", note)


@batch_norm_advice(
    "batch-norm/conventions[variance]",
    key="normalisation/variance-convention",
    applies=normalizes,
    source="Ioffe and Szegedy 2015, algorithm 1: a batch is normalized by its biased variance",
)
def variance_convention(flow: BatchNormal, batch: Batch) -> Residual:
    """A batch is normalized by its biased variance, or, if documented, by the unbiased one."""
    unbiased = Parameters.of(flow).measured_freedom == 1
    note = "batches are normalized by their unbiased variance: n/(n - 1) times the paper's"
    return undeclared(flow, unbiased, "variance", "unbiased", note)


@batch_norm_advice(
    "batch-norm/as-built[values]",
    key="normalisation/initial-values",
    applies=usual & as_built,
    history="fresh",
    source=f"{TORCH}: a new layer has weight 1, bias 0, running mean 0 and running variance 1",
)
def initial_values(flow: BatchNormal, batch: Batch) -> Residual:
    """A new layer has weight 1, bias 0, running mean 0 and running variance 1."""
    known = Parameters.of(flow)
    weight, bias = known.weight, known.bias
    if weight is None and bias is None and flow.normalizer.statistics == "batch":
        with suppress(Unsupported):
            weight, bias, *_ = scale_of(flow)
    usual_values = {
        "weight": (weight, 1.0),
        "bias": (bias, 0.0),
        "running mean": (known.running_mean, 0.0),
        "running var": (known.running_var, 1.0),
    }
    # A weight computed from an unconstrained parameter is only nearly 1.
    wrong = [
        f"{name} {got[0]:g}"
        for name, (got, expected) in usual_values.items()
        if got is not None and not np.allclose(got, expected, rtol=1e-3, atol=1e-3)
    ]
    return flags(bool(wrong), 1, f"as built it has {listed_names(wrong)}")


@batch_norm_advice(
    "batch-norm/conventions[state-dict]",
    key="normalisation/state-dict-keys",
    version=2,
    applies=is_no_flow & usual & follows_torch,
    source=f"{TORCH}: weight, bias, running_mean, running_var of shape (C,), and num_batches_tracked",
)
def state_dict_keys(flow: BatchNormal, batch: Batch) -> Residual:
    """The state_dict has the names and shapes of nn.BatchNorm with the same options, so that
    weights can be exchanged.
    """
    state, shape = flow.play([State()])[0], (number_of_channels(flow),)
    odd = [name for name in state if name not in KEYS]
    odd += [
        f"{name} {state[name].shape}"
        for name in KEYS[:4]
        if name in state and state[name].shape != shape
    ]
    return flags(bool(odd), 1, f"its state_dict has {listed_names(odd)}")


# Accepted batches. Advice: no paper defines these batches, and a layer that accepts them is right
# on all others.


def one_value(flow: BatchNormal, seed: int) -> Array:
    """A batch of one sample with one position, ``(1, channels, 1, ...)``."""
    shape = (1, number_of_channels(flow), *[1] * (len(flow.event_shape) - 1))
    return nearest_float32(np.random.default_rng(seed).standard_normal(shape))


@batch_norm_advice(
    "state/degenerate-batch[single-value]",
    key="normalisation/single-value-refused",
    applies=usual,
    source=f"{TORCH} raise ValueError: one value is its own mean, and the output would be the bias whatever comes in",
)
def single_value_refused(flow: BatchNormal, batch: Batch) -> Residual:
    """A train-mode batch of one value per channel raises an error, unless it is documented as
    accepted.
    """
    if flow.normalizer.declared.get("single") == "accepted":
        raise Unsupported("its documentation says that one value per channel is accepted")
    _, error = attempt(flow.play, [Train(), Normalize(one_value(flow, batch.seed))])
    return flags(
        not error, 1, "one value per channel is normalized in train mode: the output is the bias"
    )


Statistics = dict[str, Array]


def output_and_statistics(
    flow: BatchNormal, x: Array
) -> tuple[Array, Statistics, Statistics] | None:
    """The output of a train-mode batch, and the running statistics before and after it, by name;
    None if the batch is rejected.
    """
    life, error = attempt(flow.play, [Roles(), Train(), Normalize(x), Roles()])
    if error:
        return None
    before, after = (
        {
            role.replace("_", " "): one
            for role, one in Parameters.of(flow, outcome).statistics.items()
        }
        for outcome in (life[0], life[3])
    )
    return life[2], before, after


@batch_norm_advice(
    "shape/any-batch[batch-norm]",
    key="normalisation/empty-batch",
    applies=usual,
    source=f"{TORCH} return an empty batch and leave the running statistics as they are",
)
def empty_batch(flow: BatchNormal, batch: Batch) -> Residual:
    """A train-mode batch without samples raises an error, or returns an empty batch and does not
    change the running statistics.
    """
    x = np.zeros((0, *flow.event_shape))
    y, before, after = output_and_statistics(flow, x) or (x, {}, {})
    moved = [
        name
        for name, values in before.items()
        if name not in after or not np.array_equal(values, after[name])
    ]
    note = f"came back as {np.shape(y)}" if not moved else f"changed its {listed_names(moved)}"
    return flags(bool(moved) or np.shape(y) != x.shape, 1, f"an empty batch {note}")


@batch_norm_advice(
    "shape/wrong-refused[channels]",
    key="normalisation/channel-count",
    applies=usual & has_size,
    source=f"{TORCH} refuse a wrong number of channels; parameters of shape (1, C, 1, 1) broadcast against one channel",
)
def channel_count(flow: BatchNormal, batch: Batch) -> Residual:
    """A batch with another number of channels raises an error in train and in eval mode; it is
    never broadcast.
    """
    rng, count = np.random.default_rng(batch.seed), number_of_channels(flow)
    taken = []
    for other in sorted({1, count - 1, count + 1, 2 * count} - {count, 0}):
        x = nearest_float32(rng.standard_normal((6, other, *flow.event_shape[1:])))
        for mode, step in MODES.items():
            y, error = attempt(output, flow, x, step)
            if not error:
                taken.append(f"{other} channels in {mode} mode (and returned {np.shape(y)})")
    return flags(bool(taken), 1, f"a layer of {count} channels accepted {listed_names(taken)}")


@batch_norm_advice(
    "shape/wrong-refused[ranks]",
    key="normalisation/ranks",
    applies=channelled,
    source=f"{TORCH} check the rank in every mode; a check in train mode alone lets eval mode broadcast along a wrong axis",
)
def ranks(flow: BatchNormal, batch: Batch) -> Residual:
    """A batch of a rank that is rejected in one mode is rejected in the other."""
    rng, count, odd = np.random.default_rng(batch.seed), number_of_channels(flow), []
    for rank in RANKS:
        # As many positions as channels, so that broadcasting along a wrong axis fits.
        x = nearest_float32(rng.standard_normal((4 * count, *[count] * (rank - 1))))
        taking = [mode for mode, step in MODES.items() if not attempt(output, flow, x, step)[1]]
        if len(taking) == 1:
            odd.append(f"rank {rank} in {taking[0]} mode only")
    return flags(bool(odd), 1, f"it accepts {listed_names(odd)}")
