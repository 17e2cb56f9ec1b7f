"""Advice on what is no claim of the paper: where a batch normalizer departs from torch's
conventions and does not say so.
"""

from __future__ import annotations

import numpy as np

from flowref.laws.batch_norm.averaging import EXPLAINS, KEEP, Convention, explained, lived
from flowref.laws.batch_norm.layer import normalizes, tracks, understood_and_tracks, usual
from flowref.laws.batch_norm.oracle import (
    apart,
    channels,
    drawn,
    epsilon,
    held,
    largest,
    measured_freedom,
    normalizer_law,
    play,
    spec,
    told,
    wide,
)
from flowref.laws.common.outcomes import flags, listed
from flowref.model import ADVICE, EXACT, Batch, Residual, Undecidable
from flowref.model.abilities import BatchNormal, Flow
from flowref.model.steps import Eval, Normalize, Roles, Run, State

TORCH = "torch.nn.BatchNorm1d, BatchNorm2d and BatchNorm3d"
KEYS = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")


def convention_of(flow: Flow, batch: Batch) -> Convention:
    """The convention that explains the running statistics; `Undecidable` where none does."""
    history = lived(flow, np.random.default_rng(batch.seed))
    convention, gap = explained(flow, history)
    if not gap.max() < EXPLAINS:
        raise Undecidable(
            "no known convention explains its running statistics, which another law reports"
        )
    return convention


def has_momentum(flow: Flow) -> str | None:
    """Running statistics and a momentum."""
    return tracks(flow) or (None if "momentum" in spec(flow).roles else "its momentum is not known")


@normalizer_law(
    "batch-norm/momentum-convention",
    former="normalisation/momentum-convention",
    force=ADVICE,
    tolerance=EXACT,
    applies=has_momentum,
    effort=1,
    scales=(0.0,),
    source=f"{TORCH}: new = (1 - momentum) old + momentum batch; Keras: new = momentum old + (1 - momentum) batch",
)
def momentum_convention(flow: BatchNormal, batch: Batch) -> Residual:
    """The momentum is the fraction with which a batch enters the running statistics, as in torch,
    or the documentation says that it is the fraction of the old value that is kept.
    """
    found = convention_of(flow, batch)
    undeclared = found.momentum == KEEP and spec(flow).declared.get("momentum") != KEEP
    return flags(
        undeclared,
        1,
        "the momentum is the fraction of the old value that is kept: one minus torch's",
    )


@normalizer_law(
    "batch-norm/running-variance-convention",
    former="normalisation/running-variance-convention",
    force=ADVICE,
    tolerance=EXACT,
    applies=tracks,
    effort=1,
    scales=(0.0,),
    source=f"Ioffe and Szegedy 2015, algorithm 2, and {TORCH}: the variance used in inference is the unbiased estimate",
)
def running_variance_convention(flow: BatchNormal, batch: Batch) -> Residual:
    """The running variance averages the unbiased variances of the batches, or the documentation
    says that it averages the biased ones.
    """
    found = convention_of(flow, batch)
    undeclared = found.freedom == 0 and spec(flow).declared.get("running_var") != "biased"
    return flags(
        undeclared, 1, "the running variance averages biased variances: (n - 1)/n times torch's"
    )


@normalizer_law(
    "batch-norm/variance-convention",
    former="normalisation/variance-convention",
    force=ADVICE,
    tolerance=EXACT,
    applies=normalizes,
    effort=1,
    scales=(0.0,),
    source="Ioffe and Szegedy 2015, algorithm 1: a batch is normalized by its biased variance",
)
def variance_convention(flow: BatchNormal, batch: Batch) -> Residual:
    """A batch is normalized by its biased variance, or the documentation says that it is by the
    unbiased one.
    """
    known = held(play(flow, [Roles()])[0])
    undeclared = (
        measured_freedom(flow, known) == 1 and spec(flow).declared.get("variance") != "unbiased"
    )
    return flags(
        undeclared,
        1,
        "batches are normalized by their unbiased variance: n/(n - 1) times the paper's",
    )


@normalizer_law(
    "batch-norm/initial-values",
    former="normalisation/initial-values",
    force=ADVICE,
    tolerance=EXACT,
    applies=usual,
    effort=1,
    scales=(0.0,),
    history="fresh",
    source=f"{TORCH}: a new layer has weight 1, bias 0, running mean 0 and running variance 1",
)
def initial_values(flow: BatchNormal, batch: Batch) -> Residual:
    """A new layer has weight 1, bias 0, running mean 0 and running variance 1."""
    known = held(play(flow, [Roles()])[0])
    wanted = {"weight": 1.0, "bias": 0.0, "running_mean": 0.0, "running_var": 1.0}
    wrong = []
    for name, value in wanted.items():
        got = getattr(known, name)
        # A weight computed from something unconstrained is nearly 1.
        if got is not None and not np.allclose(got, value, rtol=1e-3, atol=1e-3):
            wrong.append(f"{name.replace('_', ' ')} {got.reshape(-1)[0]:g}")
    return flags(bool(wrong), 1, f"as built it has {listed(wrong)}")


@normalizer_law(
    "batch-norm/eval-before-training",
    former="normalisation/eval-before-training",
    force=ADVICE,
    applies=understood_and_tracks,
    effort=2,
    scales=(0.0,),
    history="fresh",
    source=f"{TORCH}: with running mean 0 and running variance 1, a new layer in eval mode hardly changes its input",
)
def eval_before_training(flow: BatchNormal, batch: Batch) -> Residual:
    r"""Evaluated before any training, a new layer returns $w\,x / \sqrt{1 + \epsilon} + b$."""
    x, count = drawn(flow, np.random.default_rng(batch.seed)), channels(flow)
    roles, _, y = play(flow, [Roles(), Eval(), Normalize(x)])
    known = held(roles)
    weight, bias = known.scale(count), known.shift(count)
    expected = wide(weight / np.sqrt(1 + epsilon(flow, known)), x) * x + wide(bias, x)
    note = "an untrained layer in eval mode does not pass its input through"
    return told(apart(y, expected, np.abs(weight) * largest(x) + np.abs(bias)), note)


def bare(flow: Flow) -> str | None:
    """A normalizer that is no flow layer: flow layers have state of their own."""
    x = drawn(flow, np.random.default_rng(0))
    if flow.inverse is not None or play(flow, [Run(spec(flow).call, x)])[0].ladj is not None:
        return "it is a layer of a flow, which nn.BatchNorm cannot stand in for"
    return usual(flow)


@normalizer_law(
    "batch-norm/state-dict-keys",
    former="normalisation/state-dict-keys",
    force=ADVICE,
    tolerance=EXACT,
    applies=bare,
    effort=1,
    scales=(0.0,),
    source=f"{TORCH}: weight, bias, running_mean, running_var of shape (C,), and num_batches_tracked",
)
def state_dict_keys(flow: BatchNormal, batch: Batch) -> Residual:
    """The state_dict has names and shapes of that of nn.BatchNorm with the same options, so that
    weights can be exchanged.
    """
    state = play(flow, [State()])[0]
    shape = (channels(flow),)
    odd = [name for name in state if name not in KEYS]
    odd += [
        f"{name} {state[name].shape}"
        for name in KEYS[:4]
        if name in state and state[name].shape != shape
    ]
    return flags(bool(odd), 1, f"its state_dict has {listed(odd)}")
