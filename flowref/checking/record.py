"""Recording of a violation: its simplest input, observed numbers and offending part."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import numpy as np

from flowref.checking.error_size import error_size
from flowref.checking.judgement import Judgement
from flowref.checking.parts import offending_part
from flowref.checking.pictures import picture
from flowref.checking.shrink import shrink
from flowref.checking.tolerance import vast
from flowref.model import (
    ADVICE,
    STATISTICAL,
    Batch,
    Condition,
    Counterexample,
    Law,
    Status,
    Target,
    Verdict,
    one_line,
)
from flowref.model.budget import BudgetExceeded

# The most entries of a point that are shown.
SHOWN = 9


def record(target: Target, judgement: Judgement) -> Verdict:
    """Return the verdict on a reviewed violation, on a simpler input if one is found."""
    size = error_size(judgement)
    with contextlib.suppress(BudgetExceeded):
        judgement = shrink(judgement)
    measurement = judgement.measurement
    condition = measurement.condition
    localize_in_parts = measurement.law.localize_in_parts and measurement.subject.parts
    part, note = "", ""
    observed: dict[str, Any] = {}
    with contextlib.suppress(BudgetExceeded):
        observed, note = observations(judgement)
        part = offending_part(target, measurement) if localize_in_parts else ""
    moved = f"after moving the parameters by {condition.scale:g}"
    where = moved if measurement.moved else "at the weights as given"
    where = "after training" if condition.history == "trained" else where
    note = "; ".join(filter(None, (on_surface(judgement), note)))
    return Verdict(
        str(target),
        measurement.law.id,
        failing_status(measurement.law),
        "; ".join(filter(None, (note, measurement.residual.method, where))),
        evidence=judgement.evidence(judgement.worst()),
        counterexample=counterexample(
            measurement.batch, replace(condition, dtype=measurement.subject.dtype), observed
        ),
        part=part,
        figure=picture(judgement),
        size=size,
    )


def on_surface(judgement: Judgement) -> str:
    """Return the manifold of a violation, as text, with the worst point on it; empty if there is
    none.
    """
    measurement = judgement.measurement
    surface, law, x = measurement.subject.facts.surface, measurement.law, measurement.batch.x
    if surface is None:
        return ""
    words = f"on {surface.name}"
    if law.tolerance == STATISTICAL or law.size == 1 or x.shape[1:] != surface.shape:
        return words
    row = judgement.worst()
    point = np.ravel(surface.point(np.asarray(x[row : row + 1], dtype=np.float64)))
    shown = ", ".join(f"{one:.4g}" for one in point[:SHOWN]) + ", ..." * (len(point) > SHOWN)
    return f"{words}, at the point [{shown}]"


def failing_status(law: Law) -> Status:
    """The status of a violated law: `ADVICE` for advice, else `VIOLATED`."""
    return Status.ADVICE if law.force == ADVICE else Status.VIOLATED


def counterexample(
    batch: Batch, condition: Condition, observed: dict[str, Any] | None = None
) -> Counterexample:
    """Return a batch as a counterexample, with everything that `replay` needs."""
    return Counterexample(
        x=batch.x.tolist(),
        context=None if batch.context is None else batch.context.tolist(),
        seed=batch.seed,
        condition=condition,
        observed=observed or {},
    )


def observations(judgement: Judgement) -> tuple[dict[str, Any], str]:
    """Return the numbers observed at the worst point, with those of the second oracle, and the
    law's note.
    """
    measurement, row = judgement.measurement, judgement.worst()
    law, residual, batch = measurement.law, measurement.residual, measurement.batch
    try:
        observed = {
            name: _as_list(np.asarray(value)[row]) for name, value in residual.observed.items()
        }
        # For events of thousands of entries the second oracle, called in review, adds nothing.
        if law.arbitrate is None or vast(measurement.subject):
            return observed, residual.note
        more, _ = law.arbitrate(measurement.subject, batch.rows(slice(row, row + 1)))
        # If the second oracle disagrees at the point alone, its numbers would contradict the report.
        shared = observed.keys() & more.keys()
        if all(np.allclose(observed[name], more[name], equal_nan=True) for name in shared):
            return observed | {name: _as_list(value) for name, value in more.items()}, residual.note
        apart = f"the point shows it in its batch of {len(batch.x)}, not alone"
        return observed, "; ".join(filter(None, (residual.note, apart)))
    except Exception as error:
        return {}, one_line(error)


def _as_list(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
