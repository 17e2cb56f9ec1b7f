"""The inverse in train mode."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from flowref.laws.common.arithmetic import (
    NOT_BACK,
    finite_rows,
    invertible_images,
    reported,
    rows_max,
)
from flowref.laws.common.outcomes import attempt
from flowref.laws.common.probes import probe_of
from flowref.laws.common.requirements import exact_log_det
from flowref.laws.conduct.train_mode import has_modes
from flowref.model import (
    ADVICE,
    BOUND,
    NEARBY,
    VOLUME,
    Array,
    Batch,
    Mapped,
    Residual,
    Undecidable,
    Unsupported,
    law,
)
from flowref.model.abilities import Invertible, Living
from flowref.model.steps import Eval, Step, Train


class LivingInvertible(Invertible, Living, Protocol):
    """An invertible map that can be called repeatedly."""


# The allowed error of the round trip in train mode, relative to 1 + |x|, and the one in eval mode
# up to which the comparison is meaningful, by precision.
LOST, KEPT = {"float64": 1e-6, "float32": 1e-2}, {"float64": 1e-9, "float32": 1e-4}


# Advice: dropout and batch statistics belong to the trained direction, and some objects reject the
# other one.
@law(
    "map/inverse[last-call]",
    key="mode/train-way-back",
    force=ADVICE,
    tolerance=BOUND,
    local=False,
    effort=2,
    size=16,
    scales=NEARBY,
    version=2,
    applies=has_modes & exact_log_det,
    source="dropout in a conditioner draws other noise in the inverse, and running statistics are not those of the batch",
)
def train_way_back(flow: LivingInvertible, batch: Batch) -> Residual:
    """In train mode, inverse undoes the preceding call of forward: it draws no noise of its own,
    and normalizes by the same statistics.
    """
    trained, evaluated = (round_trip_in_mode(flow, batch, mode) for mode in (Train(), Eval()))
    lost = LOST[flow.dtype] + 100 * flow.certainty.inverse
    good = evaluated.off <= KEPT[flow.dtype] + flow.certainty.inverse
    value = np.where(good, trained.off, 0.0)
    note = "in train mode the inverse uses other noise, or other statistics"
    return Residual(
        np.where(np.isnan(value), 0.0, value),
        allowed=lost,
        decidable=good & np.isfinite(trained.off),
        observed={"in eval mode": evaluated.off, "in train mode": trained.off},
        note=note if (value > lost).any() else "" if good.any() else NOT_BACK,
    )


@law(
    "map/log-det[last-call]",
    about=VOLUME,
    nats=True,
    tolerance=BOUND,
    local=False,
    effort=2,
    size=16,
    scales=NEARBY,
    applies=has_modes & exact_log_det,
    source="a layer that inverts with the statistics of its last batch has their log-det as well",
)
def train_log_det_back(flow: LivingInvertible, batch: Batch) -> Residual:
    """In train mode, if inverse undoes the preceding call of forward, its log-det is minus that of
    this call.
    """
    trained, evaluated = (round_trip_in_mode(flow, batch, mode) for mode in (Train(), Eval()))
    kept = KEPT[flow.dtype] + flow.certainty.inverse
    rows = len(batch.x)
    sums = [
        reported(flow, one.there, rows) + reported(flow, one.back, rows)
        for one in (trained, evaluated)
    ]
    size = 1 + np.abs(reported(flow, trained.there, rows))
    again = probe_of(flow, "forward", batch.x, batch.context).step(draws=None)
    one, other = (reported(flow, out, rows) for out in flow.play([Train(), again, again])[1:])
    if not (np.abs(one - other) <= LOST[flow.dtype] * size).all():
        raise Unsupported("in train mode each call has a log-det of its own", blocked=False)
    cancels = np.abs(sums[1]) <= LOST[flow.dtype] * size
    if not cancels.any():
        raise Unsupported(
            "in eval mode its log-dets are not each other's negative: see map/log-det[antisymmetry]",
            blocked=False,
        )
    back = np.maximum(trained.off, evaluated.off) <= kept
    return Residual(
        np.where(back, sums[0], 0.0),
        scale=size,
        allowed=(LOST[flow.dtype] + 100 * flow.certainty.inverse) * size,
        decidable=back & np.isfinite(sums[0]) & cancels,
        observed={"forward and inverse, added": sums[0]},
        note="" if back.any() else NOT_BACK,
    )


class Journey(NamedTuple):
    """A call of forward, the following call of inverse, and the error of the round trip,
    ``(rows,)``, nan if unknown.
    """

    there: Mapped
    back: Mapped
    off: Array


def round_trip_in_mode(flow: LivingInvertible, batch: Batch, mode: Step[Any]) -> Journey:
    """Both calls of one object in a mode. Raises `Unsupported` if one raises."""
    x, context = batch.x, batch.context
    onward = probe_of(flow, "forward", x, context).step()
    life, error = attempt(flow.play, [mode, onward])
    if error:
        raise Unsupported(f"its forward is refused in train mode ({error})", blocked=False)
    try:
        z, usable = invertible_images(flow, np.asarray(life[1].value, dtype=np.float64))
    except Undecidable as reason:
        raise Unsupported(str(reason)) from None
    back = probe_of(flow, "inverse", z, context).step(draws=None)
    life, error = attempt(flow.play, [mode, onward, back])
    if error:
        raise Unsupported(f"its inverse is refused in train mode ({error})", blocked=False)
    there = np.asarray(life[2].value, dtype=np.float64)
    if there.shape != x.shape:
        raise Unsupported("its inverse returns another shape", blocked=False)
    off = rows_max(there - x) / (1 + rows_max(x))
    return Journey(life[1], life[2], np.where(usable & finite_rows(z, there), off, np.nan))
