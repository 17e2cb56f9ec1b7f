"""Log-dets that are returned by a separate call."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from flowref.laws.common.arithmetic import finite_rows
from flowref.laws.common.outcomes import attempt, row_log_dets
from flowref.laws.common.requirements import not_estimator
from flowref.model import NEARBY, VOLUME, Batch, Residual, Unsupported, law
from flowref.model.abilities import Bijection, TellingLate


class BijectionTellingLate(Bijection, TellingLate, Protocol):
    """A map with a separate call for log-dets."""


@law(
    "same/history[log-det]",
    key="conduct/log-det-of-its-point",
    nats=True,
    about=VOLUME,
    local=False,
    effort=1,
    size=7,
    scales=NEARBY,
    applies=not_estimator,
    source="log_abs_det_jacobian(x, y) takes both; a cache of the last call belongs to that call (pyro issue 2384)",
)
def of_its_point(flow: BijectionTellingLate, batch: Batch) -> Residual:
    """The log-det requested with a point and its image belongs to them, also if the map was called
    at other points in between.
    """
    rows = len(batch.x)
    if rows < 2:
        raise Unsupported("there is only one point", blocked=False)
    at_once = row_log_dets(flow.forward(batch.x, batch.context), rows)
    late, refused = attempt(flow.log_det_by_method, batch.x, batch.context)
    if refused:  # it detects that its cache is outdated
        raise Unsupported(f"it refuses to return a log-det later ({refused})", blocked=False)
    requested = np.asarray(late, dtype=np.float64)
    requested = (
        np.full(rows, float(requested.sum()))
        if requested.ndim == 0
        else requested.reshape(len(requested), -1).sum(1)
    )
    if len(requested) != rows:
        raise Unsupported("its log-det is a constant", blocked=False)
    gap = requested - at_once
    note = "requested later, the log-det is that of another call"
    return Residual(
        gap,
        scale=1 + np.nan_to_num(np.abs(at_once), posinf=0.0, neginf=0.0),
        decidable=finite_rows(at_once),
        note=note if np.abs(np.nan_to_num(gap)).max() > 0 else "",
        observed={"log-det": at_once, "asked for later": requested},
    )
