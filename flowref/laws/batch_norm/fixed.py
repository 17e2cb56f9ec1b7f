"""Laws of layers that are the same fixed map in train and in eval mode: frozen on purpose, they map by the
numbers that they hold; others have forgotten the batch.
"""

from __future__ import annotations

import numpy as np

from flowref.laws.batch_norm.affine import settable
from flowref.laws.batch_norm.arithmetic import apart, standardized
from flowref.laws.batch_norm.conditions import channelled, has_modes, keeps_statistics
from flowref.laws.batch_norm.declaring import batch_norm_law, batch_residual
from flowref.laws.batch_norm.normalizer import Parameters, channels, random_batch
from flowref.laws.common.outcomes import attempt, flags
from flowref.model import EXACT, Batch, Residual, Unsupported, requires
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Assign, Eval, Normalize, Reload, Roles, Step

FROZEN = "torchvision.ops.FrozenBatchNorm2d: the statistics and the affine parameters are fixed"


def fixed(flow: BatchNormal) -> bool:
    """Whether train mode is the fixed map of eval mode."""
    try:
        has_modes.demand(flow)
    except Unsupported:
        return True
    return False


@requires("train mode is another map than eval mode")
def is_fixed(flow: BatchNormal) -> bool:
    """One map in both modes."""
    return fixed(flow)


@requires("its eps is not known", waits=True)
def tells_eps(flow: BatchNormal) -> bool:
    """Eps is an attribute: of a fixed map it cannot be measured."""
    return "eps" in flow.normalizer.roles


@batch_norm_law(
    "batch-norm/fixed-map",
    applies=channelled & is_fixed & keeps_statistics & tells_eps,
    effort=2,
    scales=(0.0,),
    source=FROZEN,
)
def fixed_map(flow: BatchNormal, batch: Batch) -> Residual:
    r"""A layer that is one fixed map in both modes maps by the numbers that it holds, whatever they are set to:
    $w (x - m) / \sqrt{v + \epsilon} + b$ per channel, with its running mean and variance.
    """
    rng, count = np.random.default_rng(batch.seed), channels(flow)
    x = random_batch(flow, rng)
    wanted = {
        "running_mean": rng.uniform(-1, 1, count),
        "running_var": rng.uniform(0.3, 2, count),
        "weight": rng.uniform(0.5, 1.5, count),
        "bias": rng.uniform(-1, 1, count),
    }
    steps: list[Step[object]] = [
        Assign(role, value)
        for role, value in wanted.items()
        if role in flow.normalizer.roles and settable(flow, Assign(role, value))
    ]
    # Into a new object they go by its state_dict, as numbers do that are used: what is folded is folded anew.
    asked: list[Step[object]] = [Reload(), Roles(), Eval(), Normalize(x)]
    life, error = attempt(flow.play, [*steps, *asked])
    if error:
        life = flow.play(asked[1:])
    roles, _, y = life[-3:]
    parameters = Parameters.of(flow, roles)
    hat = standardized(x, *parameters.running, parameters.eps or 0.0)
    note = "it does not map by the numbers that it holds"
    return batch_residual(apart(y, parameters.affine(hat), parameters.magnitude(hat)), note)


@requires("it is frozen on purpose")
def means_to_learn(flow: BatchNormal) -> bool:
    """Something is trained, a momentum says how averages move, and its name says nothing of a fixed map."""
    return (
        "momentum" in flow.normalizer.roles
        and flow.trainable
        and not flow.normalizer.declared.get("frozen")
    )


@batch_norm_law(
    "batch-norm/train-mode-normalizes",
    tolerance=EXACT,
    applies=channelled & keeps_statistics & means_to_learn,
    effort=1,
    scales=(0.0,),
    source="Ioffe and Szegedy 2015, algorithm 2: training normalizes by the batch, and inference by its averages",
)
def train_mode_normalizes(flow: BatchNormal, batch: Batch) -> Residual:
    """A layer with a momentum, and with parameters that are trained, is in train mode another map than in
    eval mode, unless it is called frozen.
    """
    note = "in train mode it is the same fixed map as in eval mode, and no batch moves its averages"
    return flags(fixed(flow), 1, note)
