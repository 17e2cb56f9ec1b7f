"""Laws of running statistics: how batches enter them, how they are counted, and what eval mode
makes of them.
"""

from __future__ import annotations

import numpy as np

from flowref.laws.batch_norm.averaging import (
    AVERAGE,
    EXPLAINS,
    KEEP,
    NEW,
    explained,
    fractions,
    lived,
)
from flowref.laws.batch_norm.layer import effective, tracks, understood_and_tracks
from flowref.laws.batch_norm.oracle import (
    apart,
    channels,
    drawn,
    epsilon,
    held,
    largest,
    moments,
    normalizer_law,
    ordinary,
    play,
    ratio,
    spec,
    told,
    wide,
)
from flowref.laws.common.outcomes import flags
from flowref.model import BOUND, EXACT, Array, Batch, Residual, Unsupported
from flowref.model.abilities import BatchNormal, Flow
from flowref.model.steps import Assign, Eval, Normalize, Roles, Train

TORCH = "torch.nn.BatchNorm1d: running statistics, momentum and num_batches_tracked"
# How often one batch is shown until running statistics are compared with its own.
SHOWN = 60


@normalizer_law(
    "batch-norm/running-update",
    former="normalisation/running-update",
    applies=tracks,
    effort=4,
    scales=(0.0, 0.3),
    source=f"{TORCH}; Keras calls momentum what torch calls one minus it, and both kinds of variance are kept by some",
)
def running_update(flow: BatchNormal, batch: Batch) -> Residual:
    r"""Each train-mode batch moves the running mean and variance once,
    $r \leftarrow (1 - f)\,r + f\,s$, with one f for both: the momentum, one minus the momentum, or
    1/t in an average over t batches; the variance s is the unbiased or the biased one.
    """
    history = lived(flow, np.random.default_rng(batch.seed))
    convention, gap = explained(flow, history)
    place = int(gap.max((1, 2)).argmax())
    after, before = history.holdings[place + 1], history.holdings[place]
    assert after.running_mean is not None
    assert after.running_var is not None
    assert before.running_mean is not None
    mean, var = moments(history.batches[place], convention.freedom)
    part = fractions(convention.momentum, history)[place]
    return told(
        gap,
        "no known convention explains how the running statistics moved",
        running_mean=after.running_mean,
        nearest_running_mean=(1 - part) * before.running_mean + part * mean,
        running_var=after.running_var,
        variance_of_the_batch=var,
    )


def limited(flow: Flow) -> str | None:
    """A momentum that can be set, and running statistics."""
    return tracks(flow) or effective("momentum", (0.25, 0.5))(flow)


@normalizer_law(
    "batch-norm/momentum-limits",
    former="normalisation/momentum-limits",
    applies=limited,
    effort=3,
    scales=(0.0,),
    source=TORCH,
)
def momentum_limits(flow: BatchNormal, batch: Batch) -> Residual:
    """At one end of the momentum, 0 or 1, the running statistics are those of the last batch; at
    the other they stay.
    """
    rng = np.random.default_rng(batch.seed)
    convention, gap = explained(flow, lived(flow, rng))
    if convention.momentum not in (NEW, KEEP) or not gap.max() < EXPLAINS:
        raise Unsupported("its running statistics follow no fixed momentum")
    x = drawn(flow, rng)
    kept = {}
    for momentum in (0.0, 1.0):
        steps = [
            Assign("momentum", momentum),
            Roles(),
            Train(),
            Normalize(x),
            Roles(),
        ]
        _, first, _, _, last = play(flow, steps)
        kept[momentum] = (held(first), held(last))
    best: Array | None = None
    for last_end, freedom in ((1.0, 1), (1.0, 0), (0.0, 1), (0.0, 0)):
        mean, var = moments(x, freedom)
        (_, last), (before, still) = kept[last_end], kept[1.0 - last_end]
        pairs = (
            (last.running_mean, mean, largest(x)),
            (last.running_var, var, var),
            (still.running_mean, before.running_mean, np.ones(channels(flow))),
            (still.running_var, before.running_var, np.ones(channels(flow))),
        )
        columns = []
        for got, expected, size in pairs:
            assert got is not None
            assert expected is not None
            columns.append(ratio(np.abs(got - expected), size + np.abs(expected)))
        value = np.nan_to_num(np.stack(columns), nan=np.inf)
        best = value if best is None or value.max() < best.max() else best
    assert best is not None
    return told(best, "momentum 0 and 1 are not the two limits")


def averages(flow: Flow) -> str | None:
    """A counter of batches and no momentum: a plain average."""
    reason = tracks(flow)
    if reason is None and ("num_batches" not in spec(flow).roles or "momentum" in spec(flow).roles):
        reason = "it has a momentum, or does not count batches"
    return reason


@normalizer_law(
    "batch-norm/plain-average",
    former="normalisation/plain-average",
    applies=averages,
    effort=3,
    scales=(0.0,),
    source=f"{TORCH}: momentum=None",
)
def plain_average(flow: BatchNormal, batch: Batch) -> Residual:
    """Without a momentum, the running statistics are the plain average of those of all batches,
    whatever their sizes.
    """
    history = lived(flow, np.random.default_rng(batch.seed))
    _, gap = explained(flow, history, lambda convention: convention.momentum == AVERAGE)
    return told(gap, "the running statistics are not the average over the batches")


@normalizer_law(
    "batch-norm/average-warms-up",
    former="normalisation/average-warms-up",
    applies=tracks,
    effort=2,
    scales=(0.0,),
    history="fresh",
    source="after t batches of mean a, an average that starts at 0 is (1 - (1 - m)^t) a; a corrected one is a",
)
def average_warms_up(flow: BatchNormal, batch: Batch) -> Residual:
    r"""Shown one batch t times, a new layer's running statistics are
    $r_0 + (1 - (1 - f)^t)(s - r_0)$, or s where the start is corrected for.
    """
    x = drawn(flow, np.random.default_rng(batch.seed))
    times = 4
    steps = [
        Roles(),
        Train(),
        *(step for _ in range(times) for step in (Normalize(x), Roles())),
    ]
    outcomes = play(flow, steps)
    holdings = [held(outcomes[0]), *(held(found) for found in outcomes[3::2])]
    first = holdings[0]
    assert first.running_mean is not None
    assert first.running_var is not None
    fractions = [1.0] if first.momentum is None else [1.0, first.momentum, 1 - first.momentum]
    if first.momentum is None and first.num_batches is None:
        raise Unsupported("its momentum is not known")
    best: Array | None = None
    for part in fractions:
        for freedom in (1, 0):
            mean, var = moments(x, freedom)
            rows = []
            for count, known in enumerate(holdings[1:], 1):
                assert known.running_mean is not None
                assert known.running_var is not None
                share = 1 - (1 - part) ** count
                gap_mean = (
                    known.running_mean - first.running_mean - share * (mean - first.running_mean)
                )
                gap_var = known.running_var - first.running_var - share * (var - first.running_var)
                rows += [
                    ratio(np.abs(gap_mean), largest(x)),
                    ratio(np.abs(gap_var), var + np.abs(first.running_var)),
                ]
            value = np.nan_to_num(np.stack(rows), nan=np.inf)
            best = value if best is None or value.max() < best.max() else best
    assert best is not None
    return told(
        best,
        "a new layer's running statistics do not approach those of the batch as an average does",
    )


def counts(flow: Flow) -> str | None:
    """A counter of batches."""
    return tracks(flow) or (
        None if "num_batches" in spec(flow).roles else "it does not count batches"
    )


@normalizer_law(
    "batch-norm/batch-counter",
    former="normalisation/batch-counter",
    tolerance=EXACT,
    applies=counts,
    effort=2,
    scales=(0.0,),
    source=TORCH,
)
def batch_counter(flow: BatchNormal, batch: Batch) -> Residual:
    """The number of batches grows by one in every train-mode call, and in no call in eval mode."""
    x = drawn(flow, np.random.default_rng(batch.seed))
    call: list[tuple[object, ...]] = [Normalize(x), Roles()]
    outcomes = play(flow, [Roles(), Train(), *call, *call, Eval(), *call])
    before, once, twice, calm = (held(outcomes[place]).num_batches for place in (0, 3, 5, 8))
    if before is None or once is None or twice is None or calm is None:
        raise Unsupported("its counter holds no number")
    wrong = (once - before, twice - once, calm - twice) != (1, 1, 0)
    seen = f"{before:g}, {once:g} and {twice:g} after two batches, {calm:g} after one in eval mode"
    return flags(wrong, 1, f"the counter was {seen}")


@normalizer_law(
    "batch-norm/updates-without-gradients",
    former="normalisation/updates-without-gradients",
    applies=tracks,
    effort=3,
    scales=(0.0, 0.3),
    source="torch.optim.swa_utils.update_bn recomputes running statistics by train-mode passes under no_grad",
)
def updates_without_gradients(flow: BatchNormal, batch: Batch) -> Residual:
    """A train-mode pass under no_grad normalizes by the batch and moves the running statistics as
    any train-mode pass does.
    """
    x = drawn(flow, np.random.default_rng(batch.seed))
    outcomes = [play(flow, [Train(), Normalize(x, how), Roles()]) for how in ("plain", "no_grad")]
    (_, y, one), (_, bare, two) = outcomes
    first, second = held(one), held(two)
    rows = [apart(bare, y, largest(y))]
    for name in ("running_mean", "running_var"):
        a, b = getattr(first, name), getattr(second, name)
        rows.append(ratio(np.abs(b - a), np.abs(a) + (largest(x) if name == "running_mean" else 0)))
    note = "under no_grad a train-mode pass normalizes or updates differently"
    return told(np.nan_to_num(np.stack(rows), nan=np.inf), note)


@normalizer_law(
    "batch-norm/eval-approaches-train",
    former="normalisation/eval-approaches-train",
    applies=understood_and_tracks,
    tolerance=BOUND,
    effort=2,
    scales=(0.0, 0.3),
    source="on stationary data the running statistics become those of the batches, so that the two modes agree",
)
def eval_approaches_train(flow: BatchNormal, batch: Batch) -> Residual:
    """After many train-mode passes over one batch, eval mode returns for it what train mode does,
    up to what the average still remembers and the factor n/(n - 1) of an unbiased variance.
    """
    rng, count = np.random.default_rng(batch.seed), channels(flow)
    x = wide(rng.choice((-1.0, 0.0, 2.0), count), np.zeros((1, *flow.event_shape))) + ordinary(
        flow, rng, 24
    )
    steps = [
        Roles(),
        Train(),
        *[Normalize(x)] * SHOWN,
        Eval(),
        Normalize(x),
        Roles(),
    ]
    outcomes = play(flow, steps)
    before, after = held(outcomes[0]), held(outcomes[-1])
    trained, calm = outcomes[1 + SHOWN], outcomes[-2]
    assert before.running_mean is not None
    assert before.running_var is not None
    if before.momentum is not None:
        # Either factor may be that of the old value: the slower is allowed.
        remembered = max(before.momentum, 1 - before.momentum) ** SHOWN
        history = lived(flow, np.random.default_rng(batch.seed))
        convention, gap = explained(flow, history)
        if gap.max() < EXPLAINS:
            kept = {NEW: 1 - before.momentum, KEEP: before.momentum}.get(
                convention.momentum, remembered ** (1 / SHOWN)
            )
            remembered = kept**SHOWN
    elif before.num_batches is not None:
        remembered = before.num_batches / (before.num_batches + SHOWN)
    else:
        raise Unsupported("its momentum is not known")
    weight, eps = np.abs(after.scale(count)), epsilon(flow, after)
    mean, var = moments(x)
    values = x[:, 0].size
    # Bounds of the running statistics, and with them of the output, where it is furthest from the
    # mean.
    off_mean = remembered * np.abs(before.running_mean - mean)
    off_var = remembered * np.abs(before.running_var - var) + var / (values - 1)
    if (off_var > 0.5 * var).any() or remembered > 0.5:
        raise Unsupported("its average still remembers too much of its past to be compared")
    deviation = np.sqrt(var + eps)
    reach = largest(x - wide(mean, x)) + off_mean
    low = np.sqrt(np.maximum(var - off_var, 0) + eps)
    allowed = weight * (
        off_mean / low + reach * off_var / (low * deviation * (low + deviation))
    ) + 1e-9 * (1 + weight)
    value = apart(calm, trained, np.where(allowed > 0, allowed, 1.0))
    worst = float(np.nan_to_num(value, nan=np.inf).max())
    note = "eval mode stays away from train mode on the same data" if worst > 1 else ""
    return Residual(np.nan_to_num(value, nan=np.inf).reshape(1, -1), allowed=1.0, note=note)
