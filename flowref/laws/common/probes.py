"""Probes: the calls that a flow offers, each with points to make it at.

A law that speaks of every call is a statement about a `Probe`, judged for all that `probes` gives:
`agree` compares what calls returned, `absent` names what should not have been seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flowref.laws.common.outcomes import attempt, compared, flags, listed
from flowref.model import (
    Array,
    Batch,
    Call,
    Life,
    Mapped,
    Observation,
    Residual,
    Undecidable,
    Unsupported,
)
from flowref.model.abilities import Flow, Living
from flowref.model.call import How, Layout
from flowref.model.steps import Run, Step

# After so many refused points in a row, a call counts as refusing all.
GIVE_UP = 6
# Outcomes of a probe that should be the same; None in place of one that was refused, which is loud
# and no wrong value.
Outcomes = Iterable[tuple[Mapped, Mapped | None]]


@dataclass(frozen=True)
class Probe:
    """One call of a flow, with inputs that it takes.

    Shapes: points ``(batch, *event)``, context ``(batch, *context)`` or None.
    ``tolerance``: what an iterative call promises about its own error.
    """

    call: Call[Any]
    points: Array
    context: Array | None
    tolerance: float = 0.0

    @property
    def name(self) -> str:
        """The name of the call."""
        return self.call.name

    def __call__(
        self, how: How = "plain", layout: Layout = "contiguous", dtype: str | None = None
    ) -> Mapped:
        """The call in a manner."""
        return self.call.under(self.points, self.context, how=how, layout=layout, dtype=dtype)

    def observe(self, default: str = "float32") -> Observation:
        """What the call does besides returning, under a default dtype."""
        return self.call.observe(self.points, self.context, default=default)

    def step(self, how: How = "plain") -> Run:
        """The call as a step of a life."""
        return Run(self.name, self.points, self.context, how)

    def at(self, points: Array) -> Probe:
        """The call at other points, with the same contexts."""
        return replace(self, points=points)

    def rows(self, index: Any) -> Probe:
        """The call at some of its points, with their contexts."""
        context = None if self.context is None else self.context[index]
        return replace(self, points=self.points[index], context=context)


def tolerance_of(flow: Flow, which: str) -> float:
    """What an iterative call promises about its own error; 0 for what is computed in closed form."""
    iterative = "forward" if flow.promises.get("iterative-forward") else "inverse"
    return float(flow.promises.get("inverse-tolerance", 0.0)) if which == iterative else 0.0


def probe_of(flow: Flow, which: str, points: Array, context: Array | None) -> Probe:
    """One call of a flow, at points that it takes."""
    return Probe(flow.calls[which], points, context, tolerance_of(flow, which))


def probes(flow: Flow, batch: Batch, complete: bool = True) -> list[Probe]:
    """The calls that a flow offers, each with points to make it at: an inverse is fed what
    ``forward`` produced.

    Points that an inverse or a log_prob refuses are replaced by points that it takes: that it
    refuses them is the business of other laws. Where it takes none the call is left out;
    `Undecidable` if the set is to be ``complete``, as rounding laws need it: a call that is there
    without noise and not under it would look like rounding.
    """
    ready: list[Probe] = []
    asked: list[tuple[str, Array]] = []
    images = batch.x
    if "forward" in flow.calls:
        ready.append(probe_of(flow, "forward", batch.x, batch.context))
        if "inverse" in flow.calls:
            images = np.asarray(flow.calls["forward"](batch.x, batch.context).value)
            asked.append(("inverse", images))
    if "log_prob" in flow.calls:
        asked.append(("log_prob", batch.x if flow.normalizing == "forward" else images))
    for which, points in asked:
        taken, error = accepted(flow.calls[which], points, batch.context)
        if taken is not None:
            ready.append(probe_of(flow, which, taken, batch.context))
        elif complete:
            raise Undecidable(f"{which} raises {error}")
    if not ready:
        raise Unsupported("it offers no call that can be made here", waits=False)
    return ready


def accepted(
    call: Callable[..., Any], points: Array, context: Array | None
) -> tuple[Array | None, str]:
    """The points, with those that a call refuses replaced by one that it takes; None and the error
    if it takes none.
    """
    _, error = attempt(call, points, context)
    if not error:
        return points, ""
    good: list[int] = []
    for row in range(len(points)):
        index = np.array([row])
        if not attempt(call, points[index], None if context is None else context[index])[1]:
            good.append(row)
        elif not good and row >= GIVE_UP:
            break
    if not good:
        return None, error
    replaced = np.repeat(points[good[:1]], len(points), 0)
    replaced[good] = points[good]
    return (None, error) if attempt(call, replaced, context)[1] else (replaced, "")


def normalizing_probe(flow: Flow, batch: Batch) -> Probe:
    """The call that training makes, with points for it."""
    if "forward" in flow.calls and flow.normalizing == "forward":
        # What it refuses raises here, so that the other rows are measured.
        flow.calls["forward"](batch.x, batch.context)
        return probe_of(flow, "forward", batch.x, batch.context)
    offered = {one.name: one for one in probes(flow, batch, complete=False)}
    return offered.get(flow.normalizing) or next(iter(offered.values()))


def data(flow: Flow, batch: Batch) -> Array:
    """Points on the data side, which densities and training steps take."""
    forward = flow.calls.get("forward")
    if forward is None or flow.normalizing == "forward" or "inverse" not in flow.calls:
        return batch.x
    return np.asarray(forward(batch.x, batch.context).value)


# Statements about every probe


def agree(
    probed: Sequence[Probe],
    outcomes: Callable[[Probe], Outcomes],
    note: str,
    all_refused: str = "",
) -> Residual:
    """The rounding residual of a law by which the outcomes of each probe are the same.

    ``all_refused``: the reason to say nothing where every second outcome was refused.
    """
    seen = [(one, first, second) for one in probed for first, second in outcomes(one)]
    if all_refused and all(second is None for _, _, second in seen):
        raise Unsupported(all_refused)
    pairs = [
        (first, first if second is None else second, one.tolerance) for one, first, second in seen
    ]
    return compared(pairs, len(probed[0].points), note)


def absent(seen: Sequence[str], rows: int, note: str, **details: Any) -> Residual:
    """The exact residual of a law by which nothing of a kind is seen: ``note`` takes the names of
    what was.
    """
    return flags(bool(seen), rows, note.format(listed(seen)), **details)


def lived(flow: Living, steps: Sequence[Step[Any]], refusal: str, fresh: bool = False) -> Life:
    """A life; `Unsupported`, for a reason that ends in the error, where it is refused."""
    life, error = attempt(flow.play, steps, fresh)
    if error:
        raise Unsupported(f"{refusal} ({error})")
    return life
