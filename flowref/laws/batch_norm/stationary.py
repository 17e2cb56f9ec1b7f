"""The law of stationary data, on which eval mode comes to agree with train mode."""

from __future__ import annotations

import numpy as np

from flowref.laws.batch_norm.arithmetic import apart, largest, moments, nan_as_inf, wide, worst
from flowref.laws.batch_norm.averaging import EXPLAINS, KEEP, NEW, explained, random_history
from flowref.laws.batch_norm.conditions import averages, understood_and_tracks
from flowref.laws.batch_norm.declaring import batch_norm_law
from flowref.laws.batch_norm.normalizer import Parameters, channels, epsilon, normal_batch
from flowref.model import BOUND, Batch, Residual, Unsupported
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Eval, Normalize, Roles, Train

# How often one batch is shown until running statistics are compared with its own.
SHOWN = 60


@batch_norm_law(
    "batch-norm/eval-approaches-train",
    applies=understood_and_tracks & averages,
    tolerance=BOUND,
    effort=2,
    scales=(0.0, 0.3),
    source="on stationary data the running statistics become those of the batches, so that the two modes agree",
)
def eval_approaches_train(flow: BatchNormal, batch: Batch) -> Residual:
    """After many train-mode passes over one batch, eval mode returns for it what train mode does,
    up to what the average still remembers and the factor n/(n - 1) of an unbiased variance.
    """
    rng = np.random.default_rng(batch.seed)
    level = wide(rng.choice((-1.0, 0.0, 2.0), channels(flow)), np.zeros((1, *flow.event_shape)))
    x = level + normal_batch(flow, rng, 24)
    shown = [Normalize(x)] * SHOWN
    life = flow.play([Roles(), Train(), *shown, Eval(), Normalize(x), Roles()])
    before, after = Parameters.of(flow, life[0]), Parameters.of(flow, life[-1])
    last, evaluated = life[1 + SHOWN], life[-2]
    share = remembered(flow, before, batch)
    weight, eps = np.abs(after.scale), epsilon(flow, after)
    mean, var = moments(x)
    values = x[:, 0].size
    # Bounds of the running statistics, and with them of the output, where it is furthest from the
    # mean.
    off_mean = share * np.abs(before.running.mean - mean)
    off_var = share * np.abs(before.running.var - var) + var / (values - 1)
    if (off_var > 0.5 * var).any() or share > 0.5:
        raise Unsupported("its average still remembers too much of its past to be compared")
    deviation = np.sqrt(var + eps)
    reach = largest(x - wide(mean, x)) + off_mean
    low = np.sqrt(np.maximum(var - off_var, 0) + eps)
    allowed = weight * (
        off_mean / low + reach * off_var / (low * deviation * (low + deviation))
    ) + 1e-9 * (1 + weight)
    value = nan_as_inf(apart(evaluated, last, np.where(allowed > 0, allowed, 1.0)))
    note = "eval mode stays away from train mode on the same data" if worst(value) > 1 else ""
    return Residual(value.reshape(1, -1), allowed=1.0, note=note)


def remembered(flow: BatchNormal, before: Parameters, batch: Batch) -> float:
    """The share of the running statistics that is older than the batches shown."""
    if before.momentum is not None:
        convention, gap = explained(random_history(flow, np.random.default_rng(batch.seed)))
        kept = {NEW: 1 - before.momentum, KEEP: before.momentum}
        if gap.max() < EXPLAINS and convention.momentum in kept:
            return kept[convention.momentum] ** SHOWN
        # Either factor may be that of the old value: the slower is allowed.
        return float(max(before.momentum, 1 - before.momentum) ** SHOWN)
    if before.num_batches is not None:
        return before.num_batches / (before.num_batches + SHOWN)
    raise Unsupported("its momentum is not known")
