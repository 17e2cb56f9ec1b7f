r"""Batch normalization as a layer of a flow: the log-det of a map with a slope a per channel and S
positions is $S \sum_c \log|a_c|$; and the inverse.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flowref.laws.batch_norm.arithmetic import channel_gap, largest_per_channel, nan_as_inf
from flowref.laws.batch_norm.conditions import (
    channelled,
    layer,
    offers_log_det,
)
from flowref.laws.batch_norm.declaration import batch_norm_law, batch_residual
from flowref.laws.batch_norm.formula import Parameters, fit_channel_line
from flowref.laws.batch_norm.normalizer import (
    input_gradient,
    normal_batch,
    number_of_channels,
    output,
    random_batch,
)
from flowref.laws.common.arithmetic import reported
from flowref.laws.common.outcomes import attempt
from flowref.model import (
    ADVICE,
    BOUND,
    GIVEN,
    NEARBY,
    OPPOSITE,
    VOLUME,
    Array,
    Batch,
    Mapped,
    Requirement,
    Residual,
    Undecidable,
)
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Eval, Normalize, Pullback, Run, Train

DINH = "Dinh et al. 2017, Real NVP (arXiv:1605.08803), section 3.7"
NO_BIJECTION = "a weight is zero, and the map no bijection"
# Relative residual up to which a map is affine per channel, so that its log-det is that of its
# slopes.
LINE = 1e-6
# The largest batch whose Jacobian is computed, in entries.
ENTRIES = 64
# The allowed difference between the log-det of the batch map and the sum of the reported ones, per
# sample, in nats.
NATS = 1e-3


class LogDet(NamedTuple):
    """A log-det with the expected one, and their difference per sample, relative to the size of
    the terms.
    """

    off: Array
    ladj: Array
    expected: float

    def residual(self, off: Array, note: str) -> Residual:
        """The residual of a law, with both log-dets for the report."""
        nats = float(np.abs(self.ladj - self.expected).max())
        return batch_residual(off, note, nats=nats, log_det=self.ladj[0], expected=self.expected)


def log_det_against_slopes(flow: BatchNormal, out: Mapped, x: Array, logs: Array) -> LogDet:
    """The log-det of a call compared with the sum over all positions of ``logs``, the log-slope of
    each channel.
    """
    ladj, positions = reported(flow, out, len(x)), int(np.prod(x.shape[2:]))
    expected = float(positions * logs.sum())
    size = positions * (1 + float(np.abs(logs).sum()))
    return LogDet(np.abs(ladj - expected) / size, ladj, expected)


def log_slopes(x: Array, y: Array) -> Array:
    """The log of the fitted slope of each channel, ``(channels,)``."""
    with np.errstate(all="ignore"):
        return np.asarray(np.log(np.abs(fit_channel_line(x, y).slope)))


@batch_norm_law(
    "map/log-det[slopes]",
    key="normalisation/log-det-of-slopes",
    about=VOLUME,
    applies=channelled & offers_log_det,
    source=f"{DINH}: the log-det of a map per channel is the sum of the logs of its slopes",
)
def log_det_of_slopes(flow: BatchNormal, batch: Batch) -> Residual:
    r"""In train and in eval mode, the log-det of the normalizing call is $S \sum_c \log|a_c|$ for
    events of S positions, equal for all samples, with the slope $a_c$ of its own output; in eval
    mode the same holds for the inverse call.
    """
    x, call = random_batch(flow, np.random.default_rng(batch.seed)), flow.normalizer.call
    # In train mode the inverse has no statistics of its own: another law advises.
    asked = [("eval", Eval(), call), ("train", Train(), call), ("eval", Eval(), OPPOSITE[call])]
    compared = {}
    for mode, step, which in [one for one in asked if one[2] in flow.calls]:
        life, error = attempt(flow.play, [step, Run(which, x)])
        if error or life[-1].ladj is None or np.shape(life[-1].value) != x.shape:
            continue
        y = np.asarray(life[-1].value)
        logs = log_slopes(x, y)
        if np.isfinite(logs).all() and fit_channel_line(x, y).relative.max() < LINE:
            compared[mode, which] = log_det_against_slopes(flow, life[-1], x, logs)
    if not compared:
        raise Undecidable("no call is affine per channel with a log-det")
    worst = {key: float(nan_as_inf(one.off).max()) for key, one in compared.items()}
    mode, which = max(worst, key=lambda key: worst[key])
    note = f"in {mode} mode the log-det of {which} is not that of its slopes"
    return compared[mode, which].residual(np.array(list(worst.values())), note)


@batch_norm_law(
    "map/inverse[batch-norm]",
    key="normalisation/train-inverse-policy",
    force=ADVICE,
    applies=layer,
    effort=2,
    scales=NEARBY,
    source="the statistics of a batch are not known to the inverse; libraries refuse it in train mode or document what it is",
)
def train_inverse_policy(flow: BatchNormal, batch: Batch) -> Residual:
    """In train mode the inverse call raises an error, or returns the batch that was normalized."""
    x = random_batch(flow, np.random.default_rng(batch.seed))
    undo = Run(OPPOSITE[flow.normalizer.call], output(flow, x, Train()))
    life, error = attempt(flow.play, [Train(), Normalize(x), undo])
    if error:
        return batch_residual(np.zeros(number_of_channels(flow)))
    if not (np.abs(Parameters.of(flow).scale) > 1e-6).all():
        raise Undecidable(NO_BIJECTION)
    note = "in train mode the inverse uses other statistics than the call that normalized"
    return batch_residual(channel_gap(life[-1].value, x, largest_per_channel(x)), note)


has_few_entries = Requirement(
    lambda flow: int(np.prod(flow.event_shape)) * 3 <= ENTRIES,
    "its events are too large for the Jacobian of a whole batch",
    blocked=True,
)


@batch_norm_law(
    "map/log-det[batch]",
    key="normalisation/batch-jacobian",
    force=ADVICE,
    tolerance=BOUND,
    applies=has_few_entries & layer,
    effort=1,
    scales=GIVEN,
    source="the log-det of normalization with its statistics held fixed is no likelihood of the batch; the gap shrinks as the "
    "batch enters its statistics with a smaller weight",
)
def batch_jacobian(flow: BatchNormal, batch: Batch) -> Residual:
    """In train mode the log-dets of a batch add up to that of the map of the whole batch, so that
    they are likelihoods.
    """
    x = normal_batch(flow, np.random.default_rng(batch.seed), 3)
    out = flow.play([Train(), Run(flow.normalizer.call, x)])[-1]
    total = float(reported(flow, out, len(x)).sum())
    cotangents = np.eye(x.size).reshape(-1, *x.shape)
    pulled = (flow.play([Train(), Pullback(x, one)])[-1] for one in cotangents)
    jacobian = np.stack([input_gradient(one, x).reshape(-1) for one in pulled])
    singular = np.linalg.svd(jacobian, compute_uv=False)
    rank = int((singular > 1e-9 * singular[0]).sum())
    with np.errstate(all="ignore"):
        truth = float(np.log(singular).sum()) if rank == x.size else -np.inf
    gap, note = abs(total - truth) / len(x), "they are off from that of the batch map"
    if rank < x.size:
        note = f"the map of the batch has rank {rank} of {x.size}"
    observed = {
        "sum of log-dets": np.array([total]),
        "log-det of the batch map": np.array([truth]),
    }
    shown = note if gap > NATS else ""
    return Residual(np.array([[gap]]), allowed=NATS, observed=observed, note=shown)
