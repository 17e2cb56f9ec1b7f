"""Repeated calls with the same tensor: its values count, not its identity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flowref.laws.common.cases import CONTEXT_NO_GRAD, NO_GRAD
from flowref.laws.common.outcomes import attempt
from flowref.laws.common.probes import BATCHED, POINTWISE, Probe, probe_agreement_residual, probes
from flowref.laws.common.requirements import repeatable
from flowref.laws.conduct.state import not_fixed, nudge
from flowref.model import NEARBY, Batch, Mapped, Residual, Unsupported, law
from flowref.model.abilities import Living
from flowref.model.steps import Eval, Overwrite, Step, Train

Steps = Sequence[Step[Any]]


@law(
    "same/history[same-tensor]",
    key="conduct/same-tensor",
    effort=2,
    size=16,
    scales=NEARBY,
    applies=repeatable,
    version=3,
    source="a tensor is a place, not a value: optimizers and data loaders write in place",
    cases=(NO_GRAD, CONTEXT_NO_GRAD),
)
def same_tensor(flow: Living, batch: Batch) -> Residual:
    """A repeated call with the same tensor, after other values were written to it or other
    parameters to the object, returns the result of the new values.
    """
    rows = len(batch.x)
    probed = probes(flow, batch, calls=(*POINTWISE, *BATCHED))
    held: list[Step[Any]] = [probe.step(held=True) for probe in probed]
    asked: list[Step[Any]] = [probe.step() for probe in probed]
    lives: dict[str, tuple[Steps, Steps]] = {}
    if flow.stateful and flow.trainable and not_fixed(flow):
        step: Steps = [Train(), nudge(flow, batch), Eval()]
        lives["an optimizer's step"] = [*step, *asked], [*held, *step, *held]
    if rows > 1:
        # Points are shifted by one row, so that each is accepted.
        moved = {id(one.points): np.roll(one.points, 1, axis=0) for one in probed}
        unique = {id(one.points): one.points for one in probed}
        writes = [Overwrite(points, moved[key]) for key, points in unique.items()]
        others = [probe.at(moved[id(probe.points)]).step() for probe in probed]
        lives["other values were written to it"] = others, [*held, *writes, *held]
    seen: list[tuple[Probe, Mapped, Mapped]] = []
    stale: list[str] = []
    for name, (one, other) in lives.items():
        found = _compared(flow, probed, one, other)
        seen += found
        if found and probe_agreement_residual(found, rows, "").per_row().max() > 0:
            stale.append(name)
    if not seen:
        raise Unsupported("it takes one point at a time, and has no parameters that move")
    note = "the same tensor returned its result from before "
    return probe_agreement_residual(seen, rows, note + " and before ".join(stale))


def _compared(
    flow: Living, probed: Sequence[Probe], one: Steps, other: Steps
) -> list[tuple[Probe, Mapped, Mapped]]:
    """The last outcomes of two histories, one pair per probe; empty if a history raises."""
    first, error = attempt(flow.play, one)
    if error:
        return []
    second, error = attempt(flow.play, other)
    if error:
        return []
    count = len(probed)
    return list(zip(probed, first[-count:], second[-count:], strict=True))
