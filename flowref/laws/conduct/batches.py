"""The result of a point does not depend on the size or the content of its batch."""

from __future__ import annotations

import math

import numpy as np

from flowref.laws.common.amounts import measured_share
from flowref.laws.common.outcomes import attempt, finite_outcome_rows, outcome_gap
from flowref.laws.common.probes import POINTWISE, Probe, echo_of, probes, random
from flowref.laws.common.requirements import not_estimator
from flowref.model import NEARBY, Array, Batch, Mapped, Residual, law
from flowref.model.abilities import Flow

# Rows of a large batch, the largest number of its entries, and of operations of a round trip.
LARGE, ENTRIES, OPERATIONS = 337, 40_000, 2500
# Copies of one row, and the distance of a point in the tail.
EQUAL, TAIL = 5, 1e3
# Differences above rounding, after which randomness is tested.
APART = 1e-9


@law(
    "same/rows[large-batch]",
    key="mode/batch-content",
    effort=2,
    echo=echo_of(POINTWISE, complete=False),
    size=7,
    scales=NEARBY,
    applies=not_estimator,
    source="statistics of the batch enter through scales, tolerances, stopping rules and chunks",
)
def batch_content(flow: Flow, batch: Batch) -> Residual:
    """In eval mode a point has the same result in a batch of several hundred, next to copies of
    itself, and next to a point far in the tail.
    """
    rows = len(batch.x)
    columns, good = [np.zeros(rows)], np.ones(rows, dtype=bool)
    for probe in probes(flow, batch, complete=False, calls=POINTWISE):
        whole = probe()
        if probe.name == "forward":
            good &= finite_outcome_rows(whole, rows)
        found = batch_composition_gap(flow, probe, whole)
        if np.nanmax(found, initial=0.0) > APART and random(flow, probe):
            continue
        columns.append(np.where(finite_outcome_rows(whole, rows), found, 0.0))
    value = np.stack(columns).max(0)
    note = "a point's result depends on what else is in its batch" if value[good].any() else ""
    return Residual(value, 1.0, decidable=good, note=note)


def batch_composition_gap(flow: Flow, probe: Probe, whole: Mapped) -> Array:
    """The change of the results relative to their size, ``(rows,)``."""
    rows = len(probe.points)
    arrangements = [np.zeros(EQUAL, dtype=int)]
    if (
        LARGE * math.prod(probe.points.shape[1:]) <= ENTRIES
        and measured_share(flow, OPERATIONS) == 1
    ):
        arrangements.append(np.arange(LARGE) % rows)
    worst = np.zeros(rows)
    for index in arrangements:
        out, refused = attempt(probe.rows(index))
        if not refused:
            np.maximum.at(worst, index, change_between_batches(probe, whole, index, out))
    if probe.name == "forward" and not flow.domain.has_end and flow.domain.kind == "real":
        index = np.append(np.arange(rows), 0)
        points = probe.points[index]
        points[-1] = TAIL * (1 + np.abs(points[-1]))
        out, refused = attempt(probe.rows(index).at(points))
        if not refused:
            worst = np.maximum(worst, change_between_batches(probe, whole, index[:-1], out))
    return worst


def change_between_batches(probe: Probe, whole: Mapped, index: Array, out: Mapped) -> Array:
    """The change of the results of some rows from those of the same points before."""
    count, rows = len(index), len(probe.points)
    value = np.asarray(out.value)
    if value.ndim == 0 or len(value) < count:
        return np.full(count, np.inf)
    ladj, other = np.asarray(whole.ladj), np.asarray(out.ladj)
    has_log_dets = (
        whole.ladj is not None and out.ladj is not None and ladj.ndim > 0 and other.ndim > 0
    )
    has_log_dets = has_log_dets and len(ladj) == rows and len(other) == len(value)
    first = Mapped(np.asarray(whole.value)[index], ladj[index] if has_log_dets else None)
    second = Mapped(value[:count], other[:count] if has_log_dets else None)
    return np.asarray(outcome_gap(first, second, count, probe.tolerance).max(1))
