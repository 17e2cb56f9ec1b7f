"""Laws of running statistics: how batches enter them, and how they are counted."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowref.laws.batch_norm.arithmetic import (
    apart,
    largest,
    moments,
    nan_as_inf,
    ratio,
    smallest,
)
from flowref.laws.batch_norm.averaging import (
    AVERAGE,
    EXPLAINS,
    KEEP,
    NEW,
    constant,
    explained,
    fractions,
    random_history,
    trained,
)
from flowref.laws.batch_norm.conditions import averages, takes_momentum, tracks
from flowref.laws.batch_norm.declaring import batch_norm_law, batch_residual
from flowref.laws.batch_norm.normalizer import (
    Parameters,
    Running,
    random_batch,
)
from flowref.laws.batch_norm.pictures import course
from flowref.laws.common.outcomes import flags
from flowref.laws.common.requirements import as_built
from flowref.model import EXACT, Array, Batch, Residual, Unsupported, requires
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Assign, Eval, Normalize, Roles, Step, Train

TORCH = "torch.nn.BatchNorm1d: running statistics, momentum and num_batches_tracked"


@batch_norm_law(
    "batch-norm/running-update",
    picture=course,
    applies=averages,
    scales=(0.0, 0.3),
    source=f"{TORCH}; Keras calls momentum what torch calls one minus it, and both kinds of variance are kept by some",
)
def running_update(flow: BatchNormal, batch: Batch) -> Residual:
    r"""Each train-mode batch moves the running mean and variance once,
    $r \leftarrow (1 - f)\,r + f\,s$, with one f for both: the momentum, one minus the momentum, or
    1/t in an average over t batches; the variance s is the unbiased or the biased one.
    """
    history = random_history(flow, np.random.default_rng(batch.seed))
    convention, gap = explained(history)
    index = int(gap.max((1, 2)).argmax())
    before, after = (history.parameters[at].running for at in (index, index + 1))
    mean, var = moments(history.batches[index], convention.freedom)
    fraction = fractions(convention.momentum, history)[index]
    return batch_residual(
        gap,
        "no known convention explains how the running statistics moved",
        running_mean=after.mean,
        nearest_running_mean=(1 - fraction) * before.mean + fraction * mean,
        running_var=after.var,
        variance_of_the_batch=var,
    )


@batch_norm_law(
    "batch-norm/momentum-limits",
    picture=course,
    applies=averages & takes_momentum,
    effort=3,
    scales=(0.0,),
    source=TORCH,
)
def momentum_limits(flow: BatchNormal, batch: Batch) -> Residual:
    """At one end of the momentum, 0 or 1, the running statistics are those of the last batch; at
    the other they stay.
    """
    rng = np.random.default_rng(batch.seed)
    convention, gap = explained(random_history(flow, rng))
    if convention.momentum not in (NEW, KEEP) or not gap.max() < EXPLAINS:
        raise Unsupported("its running statistics follow no fixed momentum")
    x = random_batch(flow, rng)
    ends = (at_momentum(flow, x, 0.0), at_momentum(flow, x, 1.0))
    gaps = [
        apart_at_the_ends(x, follows, stays, freedom)
        for follows, stays in (ends[::-1], ends)
        for freedom in (1, 0)
    ]
    return batch_residual(smallest(gaps), "momentum 0 and 1 are not the two limits")


def at_momentum(flow: BatchNormal, x: Array, momentum: float) -> tuple[Running, Running]:
    """The running statistics before and after a batch, with a momentum."""
    assign = Assign("momentum", momentum)
    _, before, _, _, after = flow.play([assign, Roles(), Train(), Normalize(x), Roles()])
    return Parameters.of(flow, before).running, Parameters.of(flow, after).running


def apart_at_the_ends(
    x: Array, follows: tuple[Running, Running], stays: tuple[Running, Running], freedom: int
) -> Array:
    """How far running statistics are from those of the batch where they follow it, and from what
    they were where they stay.
    """
    mean, var = moments(x, freedom)
    (_, last), (before, after) = follows, stays
    ones = np.ones(len(mean))
    columns = [
        ratio(np.abs(got - expected), size + np.abs(expected))
        for got, expected, size in (
            (last.mean, mean, largest(x)),
            (last.var, var, var),
            (after.mean, before.mean, ones),
            (after.var, before.var, ones),
        )
    ]
    return nan_as_inf(np.stack(columns))


@requires("it has a momentum, or does not count batches")
def averages_plainly(flow: BatchNormal) -> bool:
    """A counter of batches and no momentum: a plain average."""
    roles = flow.normalizer.roles
    return "num_batches" in roles and "momentum" not in roles


@batch_norm_law(
    "batch-norm/plain-average",
    picture=course,
    applies=averages & averages_plainly,
    effort=3,
    scales=(0.0,),
    source=f"{TORCH}: momentum=None",
)
def plain_average(flow: BatchNormal, batch: Batch) -> Residual:
    """Without a momentum, the running statistics are the plain average of those of all batches,
    whatever their sizes.
    """
    history = random_history(flow, np.random.default_rng(batch.seed))
    fraction = constant(history)
    if fraction is not None:
        raise Unsupported(f"it has a momentum, {fraction:.6g}, that no attribute states")
    _, gap = explained(history, lambda convention: convention.momentum == AVERAGE)
    return batch_residual(gap, "the running statistics are not the average over the batches")


@batch_norm_law(
    "batch-norm/average-warms-up",
    picture=course,
    applies=averages & as_built,
    effort=2,
    scales=(0.0,),
    history="fresh",
    source="after t batches of mean a, an average that starts at 0 is (1 - (1 - m)^t) a; a corrected one is a",
)
def average_warms_up(flow: BatchNormal, batch: Batch) -> Residual:
    r"""Shown one batch t times, a new layer's running statistics are
    $r_0 + (1 - (1 - f)^t)(s - r_0)$, or s where the start is corrected for.
    """
    x = random_batch(flow, np.random.default_rng(batch.seed))
    history = trained(flow, [x] * 4)
    first, *later = history.parameters
    entered = constant(history) if first.momentum is None else None
    if first.momentum is None and first.num_batches is None and entered is None:
        raise Unsupported("its momentum is not known")
    fractions = [1.0] if first.momentum is None else [1.0, first.momentum, 1 - first.momentum]
    fractions += [] if entered is None else [entered]
    approaches = [one.running for one in later]
    gaps = [
        apart_from_average(x, first.running, approaches, fraction, freedom)
        for fraction in fractions
        for freedom in (1, 0)
    ]
    return batch_residual(
        smallest(gaps),
        "a new layer's running statistics do not approach those of the batch as an average does",
    )


def apart_from_average(
    x: Array, first: Running, later: list[Running], fraction: float, freedom: int
) -> Array:
    """How far running statistics are from an average that a batch enters again and again."""
    mean, var = moments(x, freedom)
    rows = []
    for times, (running_mean, running_var) in enumerate(later, 1):
        share = 1 - (1 - fraction) ** times
        gap_mean = running_mean - first.mean - share * (mean - first.mean)
        gap_var = running_var - first.var - share * (var - first.var)
        rows += [
            ratio(np.abs(gap_mean), largest(x)),
            ratio(np.abs(gap_var), var + np.abs(first.var)),
        ]
    return nan_as_inf(np.stack(rows))


@requires("it does not count batches")
def counts(flow: BatchNormal) -> bool:
    """A counter of batches."""
    return "num_batches" in flow.normalizer.roles


@batch_norm_law(
    "batch-norm/batch-counter",
    tolerance=EXACT,
    applies=tracks & counts,
    effort=2,
    scales=(0.0,),
    source=TORCH,
)
def batch_counter(flow: BatchNormal, batch: Batch) -> Residual:
    """The number of batches grows by one in every train-mode call, and in no call in eval mode."""
    x = random_batch(flow, np.random.default_rng(batch.seed))
    call: list[Step[Any]] = [Normalize(x), Roles()]
    life = flow.play([Roles(), Train(), *call, *call, Eval(), *call])
    before, once, twice, evaluated = (
        Parameters.of(flow, life[index]).num_batches for index in (0, 3, 5, 8)
    )
    if before is None or once is None or twice is None or evaluated is None:
        raise Unsupported("its counter holds no number")
    wrong = (once - before, twice - once, evaluated - twice) != (1, 1, 0)
    trace = f"{before:g}, {once:g} and {twice:g} after two batches"
    return flags(wrong, 1, f"the counter was {trace}, {evaluated:g} after one in eval mode")


@batch_norm_law(
    "batch-norm/updates-without-gradients",
    applies=tracks,
    effort=3,
    scales=(0.0, 0.3),
    source="torch.optim.swa_utils.update_bn recomputes running statistics by train-mode passes under no_grad",
)
def updates_without_gradients(flow: BatchNormal, batch: Batch) -> Residual:
    """A train-mode pass under no_grad normalizes by the batch and moves the running statistics as
    any train-mode pass does.
    """
    x = random_batch(flow, np.random.default_rng(batch.seed))
    _, y, roles = flow.play([Train(), Normalize(x), Roles()])
    _, bare, bare_roles = flow.play([Train(), Normalize(x, "no_grad"), Roles()])
    one, two = (Parameters.of(flow, outcome).running for outcome in (roles, bare_roles))
    rows = [
        apart(bare, y, largest(y)),
        ratio(np.abs(two.mean - one.mean), np.abs(one.mean) + largest(x)),
        ratio(np.abs(two.var - one.var), np.abs(one.var)),
    ]
    note = "under no_grad a train-mode pass normalizes or updates differently"
    return batch_residual(nan_as_inf(np.stack(rows)), note)
