"""Following a map through its levels: what each level is given and gives, and which latents are
whose.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from flowref.model import Array, Batch, MultiScale, Unsupported, draw, per_point
from flowref.model.abilities import Flow
from flowref.model.steps import Eval, Trace


class Passage(NamedTuple):
    """What a level was given and gave in one call, in rows, and the log-dets of its modules."""

    given: Array
    gave: Array
    ladj: Array


def spec(flow: Flow) -> MultiScale:
    """What is known of the levels."""

    return flow.multi_scale


def sizes(flow: Flow) -> list[int]:
    """How many entries leave after each level."""
    return [int(np.prod(shape)) for shape in spec(flow).shapes]


def places(flow: Flow) -> list[Array]:
    """Which entries of the flattened latents are those of each level."""
    if spec(flow).places:
        return [np.array(place, dtype=int) for place in spec(flow).places]
    ends = np.cumsum([0, *sizes(flow)])
    return [np.arange(start, end) for start, end in pairwise(ends)]


def ordinary(flow: Flow, batch: Batch) -> Array:
    """As many ordinary points on the data side as the batch has."""
    rng = np.random.default_rng(batch.seed)
    data = spec(flow).call == "forward"
    support = flow.domain if data else flow.codomain or flow.domain
    shape = flow.event_shape if data else flow.latent_shape
    return np.asarray(draw(support, (len(batch.x), *shape), rng), dtype=np.float64)


def names(flow: Flow) -> list[str]:
    """The modules of all levels."""
    return [name for level in spec(flow).levels for name in level]


def passages(flow: Flow, trace: Any, rows: int) -> list[Passage]:
    """What every level was given and gave, from what its modules were and did."""
    found = []
    for level in spec(flow).levels:
        runs = [run for run in trace if run[0] in level]
        if not runs or runs[0][1] is None or runs[-1][2] is None:
            raise Unsupported("its levels do not run one by one")
        ladj = np.sum(
            [per_point(run[3], rows) for run in runs if run[3] is not None], axis=0
        ) + np.zeros(rows)
        given, gave = (
            np.asarray(value, dtype=np.float64).reshape(rows, -1)
            for value in (runs[0][1], runs[-1][2])
        )
        found.append(Passage(given, gave, ladj))
    return found


def flattened(value: Any, rows: int) -> Array:
    """A batch of latents as rows."""
    return np.asarray(value, dtype=np.float64).reshape(rows, -1)


def play(flow: Flow, steps: list[tuple[Any, ...]]) -> list[Any]:
    """The outcomes of a scenario in eval mode."""

    return flow.play([Eval(), *steps])[1:]


def contexts(flow: Flow, batch: Batch) -> Array | None:
    """The contexts of the batch."""
    return None if flow.context_shape is None else batch.context


def forward_passages(flow: Flow, batch: Batch) -> tuple[Array, list[Passage], Array, Array, Array]:
    """Points, what each level made of them, the latents, the log-det of the call, and that of the
    modules around.
    """
    x, context, which = ordinary(flow, batch), contexts(flow, batch), spec(flow).call
    around = list(spec(flow).around)
    traced = names(flow) + around
    ((*trace, (_, _, value, total)),) = play(flow, [Trace(which, x, context, traced)])
    rows = len(x)
    beside = [per_point(run[3], rows) for run in trace if run[0] in around and run[3] is not None]
    if total is None:
        raise Unsupported("it returns no log-det")
    ladj = per_point(total, rows) * (-1.0 if flow.promises.get("ladj") == "inverse" else 1.0)
    return (
        x,
        passages(flow, trace, rows),
        flattened(value, rows),
        ladj,
        np.sum(beside, axis=0) + np.zeros(rows),
    )
