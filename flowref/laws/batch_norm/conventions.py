"""Advice on what is no claim of the paper: where a batch normalizer departs from torch's
conventions and does not say so.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from flowref.laws.batch_norm.arithmetic import apart, largest, wide
from flowref.laws.batch_norm.averaging import (
    EXPLAINS,
    KEEP,
    Convention,
    explained,
    random_history,
)
from flowref.laws.batch_norm.conditions import (
    averages,
    normalizes,
    understood_and_tracks,
    usual,
)
from flowref.laws.batch_norm.declaring import batch_norm_advice, batch_norm_law, batch_residual
from flowref.laws.batch_norm.measuring import scale_of
from flowref.laws.batch_norm.normalizer import (
    Parameters,
    channels,
    epsilon,
    is_flow,
    measured_freedom,
    random_batch,
)
from flowref.laws.common.outcomes import flags, listed
from flowref.laws.common.requirements import as_built
from flowref.model import ADVICE, Batch, Residual, Undecidable, Unsupported, requires
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Eval, Normalize, Roles, State

TORCH = "torch.nn.BatchNorm1d, BatchNorm2d and BatchNorm3d"
KEYS = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")


def convention_of(flow: BatchNormal, batch: Batch) -> Convention:
    """The convention that explains the running statistics; `Undecidable` where none does."""
    convention, gap = explained(random_history(flow, np.random.default_rng(batch.seed)))
    if not gap.max() < EXPLAINS:
        raise Undecidable(
            "no known convention explains its running statistics, which another law reports"
        )
    return convention


@requires("its momentum is not known", waits=True)
def has_momentum(flow: BatchNormal) -> bool:
    """Something plays the role of the momentum."""
    return "momentum" in flow.normalizer.roles


@batch_norm_advice(
    "batch-norm/momentum-convention",
    applies=averages & has_momentum,
    source=f"{TORCH}: new = (1 - momentum) old + momentum batch; Keras: new = momentum old + (1 - momentum) batch",
)
def momentum_convention(flow: BatchNormal, batch: Batch) -> Residual:
    """The momentum is the fraction with which a batch enters the running statistics, as in torch,
    or the documentation says that it is the fraction of the old value that is kept.
    """
    keeps = convention_of(flow, batch).momentum == KEEP
    undeclared = keeps and flow.normalizer.declared.get("momentum") != KEEP
    return flags(
        undeclared,
        1,
        "the momentum is the fraction of the old value that is kept: one minus torch's",
    )


@batch_norm_advice(
    "batch-norm/running-variance-convention",
    applies=averages,
    source=f"Ioffe and Szegedy 2015, algorithm 2, and {TORCH}: the variance used in inference is the unbiased estimate",
)
def running_variance_convention(flow: BatchNormal, batch: Batch) -> Residual:
    """The running variance averages the unbiased variances of the batches, or the documentation
    says that it averages the biased ones.
    """
    biased = convention_of(flow, batch).freedom == 0
    undeclared = biased and flow.normalizer.declared.get("running_var") != "biased"
    return flags(
        undeclared, 1, "the running variance averages biased variances: (n - 1)/n times torch's"
    )


@batch_norm_advice(
    "batch-norm/variance-convention",
    applies=normalizes,
    source="Ioffe and Szegedy 2015, algorithm 1: a batch is normalized by its biased variance",
)
def variance_convention(flow: BatchNormal, batch: Batch) -> Residual:
    """A batch is normalized by its biased variance, or the documentation says that it is by the
    unbiased one.
    """
    unbiased = measured_freedom(flow, Parameters.of(flow)) == 1
    undeclared = unbiased and flow.normalizer.declared.get("variance") != "unbiased"
    return flags(
        undeclared,
        1,
        "batches are normalized by their unbiased variance: n/(n - 1) times the paper's",
    )


@batch_norm_advice(
    "batch-norm/initial-values",
    applies=usual & as_built,
    history="fresh",
    source=f"{TORCH}: a new layer has weight 1, bias 0, running mean 0 and running variance 1",
)
def initial_values(flow: BatchNormal, batch: Batch) -> Residual:
    """A new layer has weight 1, bias 0, running mean 0 and running variance 1."""
    parameters = Parameters.of(flow)
    weight, bias = parameters.weight, parameters.bias
    if weight is None and bias is None and flow.normalizer.statistics == "batch":
        with suppress(Unsupported):
            weight, bias, *_ = scale_of(flow)
    wrong = []
    for name, got, expected in (
        ("weight", weight, 1.0),
        ("bias", bias, 0.0),
        ("running mean", parameters.running_mean, 0.0),
        ("running var", parameters.running_var, 1.0),
    ):
        # A weight computed from something unconstrained is nearly 1.
        if got is not None and not np.allclose(got, expected, rtol=1e-3, atol=1e-3):
            wrong.append(f"{name} {got[0]:g}")
    return flags(bool(wrong), 1, f"as built it has {listed(wrong)}")


@batch_norm_law(
    "batch-norm/eval-before-training",
    force=ADVICE,
    applies=understood_and_tracks & as_built,
    effort=2,
    scales=(0.0,),
    history="fresh",
    source=f"{TORCH}: with running mean 0 and running variance 1, a new layer in eval mode hardly changes its input",
)
def eval_before_training(flow: BatchNormal, batch: Batch) -> Residual:
    r"""Evaluated before any training, a new layer returns $w\,x / \sqrt{1 + \epsilon} + b$."""
    x = random_batch(flow, np.random.default_rng(batch.seed))
    roles, _, y = flow.play([Roles(), Eval(), Normalize(x)])
    parameters = Parameters.of(flow, roles)
    weight, bias = parameters.scale, parameters.shift
    expected = wide(weight / np.sqrt(1 + epsilon(flow, parameters)), x) * x + wide(bias, x)
    note = "an untrained layer in eval mode does not pass its input through"
    return batch_residual(apart(y, expected, np.abs(weight) * largest(x) + np.abs(bias)), note)


@requires("it is a layer of a flow, which nn.BatchNorm cannot stand in for")
def is_no_flow(flow: BatchNormal) -> bool:
    """Flow layers have state of their own."""
    return not is_flow(flow)


@batch_norm_advice(
    "batch-norm/state-dict-keys",
    applies=is_no_flow & usual,
    source=f"{TORCH}: weight, bias, running_mean, running_var of shape (C,), and num_batches_tracked",
)
def state_dict_keys(flow: BatchNormal, batch: Batch) -> Residual:
    """The state_dict has names and shapes of that of nn.BatchNorm with the same options, so that
    weights can be exchanged.
    """
    state = flow.play([State()])[0]
    shape = (channels(flow),)
    odd = [name for name in state if name not in KEYS]
    odd += [
        f"{name} {state[name].shape}"
        for name in KEYS[:4]
        if name in state and state[name].shape != shape
    ]
    return flags(bool(odd), 1, f"its state_dict has {listed(odd)}")
