"""Laws of batch normalization in flows, against the slopes that calls show: log-dets and running averages."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flowref.laws.batch_norm.arithmetic import apart, largest, moments, ratio, worst
from flowref.laws.batch_norm.conditions import channelled
from flowref.laws.batch_norm.declaring import batch_norm_law, batch_residual
from flowref.laws.batch_norm.flow import DINH
from flowref.laws.batch_norm.measured_statistics import followed
from flowref.laws.batch_norm.measuring import WIDE, Scale, line, off_line, offers_log_det
from flowref.laws.batch_norm.normalizer import channels, random_batch
from flowref.laws.common.arithmetic import reported
from flowref.laws.common.outcomes import attempt
from flowref.model import OPPOSITE, RUNNING, VOLUME, Array, Batch, Residual, Undecidable, requires
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Eval, Run, Step, Train

# A map is a line, whose slope its log-det has, if its values are no further from it.
LINE = 1e-6
# Batches after which a running average is that of a batch, and how near to one a gain must come.
SHOWN, NEAR_ONE = 100, 0.05


class Told(NamedTuple):
    """A log-det beside that of the slopes, per sample, relative to the size of its terms."""

    off: Array
    mode: str
    call: str
    ladj: Array
    expected: float


@batch_norm_law(
    "batch-norm/log-det-of-slopes",
    about=VOLUME,
    applies=channelled & offers_log_det,
    source=f"{DINH}: the log-det of a map per channel is the sum of the logs of its slopes",
)
def log_det_of_slopes(flow: BatchNormal, batch: Batch) -> Residual:
    r"""In train and in eval mode, the log-det of the normalizing call is $S \sum_c \log|a_c|$ for
    events of S positions, the same for every sample, with the slope $a_c$ of its own output; and so
    it is in eval mode for the call that undoes it.
    """
    x = random_batch(flow, np.random.default_rng(batch.seed))
    call, undo = flow.normalizer.call, OPPOSITE[flow.normalizer.call]
    told = [
        *told_by(flow, "eval", call, x, [Eval()]),
        *told_by(flow, "train", call, x, [Train()]),
    ]
    # In train mode what undoes it has no statistics of its own: another law advises.
    if undo in flow.calls:
        told += told_by(flow, "eval", undo, x, [Eval()])
    if not told:
        raise Undecidable("no call is a line with a log-det")
    worst = max(told, key=lambda one: float(np.nan_to_num(one.off, nan=np.inf).max()))
    return batch_residual(
        np.stack([np.nan_to_num(one.off, nan=np.inf).max() for one in told]),
        f"in {worst.mode} mode the log-det of {worst.call} is not that of its slopes",
        nats=float(np.abs(worst.ladj - worst.expected).max()),
        log_det=worst.ladj[0],
        expected=worst.expected,
    )


@requires("it normalizes by the statistics of the batch")
def by_averages(flow: BatchNormal) -> bool:
    """Train mode normalizes by running averages."""
    return flow.normalizer.statistics == RUNNING


@batch_norm_law(
    "batch-norm/running-map",
    applies=channelled & by_averages,
    scales=(0.0, 0.3),
    source="Dinh et al. 2017, Real NVP (arXiv:1605.08803), appendix E",
)
def running_map(flow: BatchNormal, batch: Batch) -> Residual:
    """Where train mode normalizes by running averages, it maps a batch as eval mode does right
    after it, log-det included, and one line per channel.
    """
    x = random_batch(flow, np.random.default_rng(batch.seed))
    run = flow.normalizer.call
    _, trained, _, evaluated = flow.play([Train(), Run(run, x), Eval(), Run(run, x)])
    one, two = np.asarray(trained.value), np.asarray(evaluated.value)
    rows = [apart(one, two, largest(two)), off_line(x, one)]
    if trained.ladj is not None and evaluated.ladj is not None:
        first, second = (reported(flow, out, len(x)) for out in (trained, evaluated))
        gap = float(np.abs(first - second).max() / (1 + np.abs(second).max()))
        rows.append(np.full(x.shape[1], gap))
    return batch_residual(np.stack(rows), "train mode is another map than eval mode after it")


@requires("its weight and its bias are not known")
def bare(flow: BatchNormal) -> bool:
    """Nothing is trained, so that it has neither weight nor bias."""
    return not flow.trainable


@batch_norm_law(
    "batch-norm/averages-follow",
    applies=channelled & by_averages & bare,
    scales=(0.0,),
    source="Dinh et al. 2017, Real NVP (arXiv:1605.08803), appendix E; Kingma and Ba 2015, Adam, section 3",
)
def averages_follow(flow: BatchNormal, batch: Batch) -> Residual:
    r"""Where train mode normalizes by running averages, each batch moves mean and variance of eval mode
    towards its own, once and both by one fraction f, $0 < f \le 1$, which does not grow from batch to
    batch: an average that is corrected for its start is so in both.
    """
    count = channels(flow)
    plain = Scale(np.ones(count), np.zeros(count), 0.0, 0)
    found = followed(flow, batch, plain, eps_unknown=True)
    gain = fixed_gain(flow, batch)
    if gain is None:
        return found
    other = followed(flow, batch, plain._replace(weight=gain * plain.weight), eps_unknown=True)
    return min(found, other, key=lambda one: worst(np.asarray(one.value)))


def fixed_gain(flow: BatchNormal, batch: Batch) -> float | None:
    """A constant by which it multiplies all that it normalizes, as a batch of the largest spread of all
    shows it after many of its kind; None where it is one.
    """
    x = WIDE * random_batch(flow, np.random.default_rng(batch.seed), 16)
    run = Run(flow.normalizer.call, x)
    life, error = attempt(flow.play, [Train(), *[run] * SHOWN, Eval(), run])
    if error or np.shape(life[-1].value) != x.shape:
        return None
    slope = line(x, np.asarray(life[-1].value)).slope
    with np.errstate(all="ignore"):
        gains = [slope * np.sqrt(moments(x, less)[1]) for less in (0, 1)]
    told = min(gains, key=lambda one: float(np.abs(one - 1).max()))
    return None if np.abs(told - 1).max() < NEAR_ONE else float(np.median(told))


def told_by(
    flow: BatchNormal, mode: str, call: str, x: Array, before: list[Step[object]]
) -> list[Told]:
    """The log-det of one call; nothing where it is refused, offers none, or is no line."""
    life, error = attempt(flow.play, [*before, Run(call, x)])
    if error or life[-1].ladj is None or np.shape(life[-1].value) != x.shape:
        return []
    out = life[-1]
    seen = line(x, np.asarray(out.value))
    with np.errstate(all="ignore"):
        logs = np.log(np.abs(seen.slope))
        off = ratio(seen.off, np.abs(seen.slope) * largest(x) + np.abs(seen.level))
    if not np.isfinite(logs).all() or not off.max() < LINE:
        return []
    positions = int(np.prod(x.shape[2:]))
    expected = float(positions * logs.sum())
    ladj = reported(flow, out, len(x))
    size = positions * (1 + float(np.abs(logs).sum()))
    return [Told(np.abs(ladj - expected) / size, mode, call, ladj, expected)]
