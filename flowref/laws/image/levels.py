"""The levels of a map: inputs, outputs and latents of each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np

from flowref.model import Array, Batch, Unsupported, draw_points, per_point
from flowref.model.abilities import Living, MultiScaled
from flowref.model.steps import Eval, Passed, Step, Trace

Outcome = TypeVar("Outcome")


class Passage(NamedTuple):
    """One level in one call: its input and output as rows, and the log-dets of its modules."""

    entered: Array
    left: Array
    ladj: Array


class Traversal(NamedTuple):
    """Points on the data side and their passage through each level, the latents as rows, the
    log-det of the call, and that of modules outside the levels.
    """

    x: Array
    levels: list[Passage]
    z: Array
    ladj: Array
    around: Array


def sizes(flow: MultiScaled) -> list[int]:
    """The number of entries that leave after each level."""
    return [int(np.prod(shape)) for shape in flow.multi_scale.shapes]


def owned(flow: MultiScaled) -> list[Array]:
    """The indices of the flattened latents of each level."""
    if flow.multi_scale.entries:
        return [np.array(level, dtype=int) for level in flow.multi_scale.entries]
    ends = np.cumsum([0, *sizes(flow)])
    return [np.arange(start, end) for start, end in pairwise(ends)]


def ordinary_data_points(flow: MultiScaled, batch: Batch) -> Array:
    """As many ordinary points on the data side as the batch has, ``(n, *event)``."""
    rng = np.random.default_rng(batch.seed)
    data = flow.multi_scale.call == "forward"
    support = flow.domain if data else flow.codomain or flow.domain
    shape = flow.event_shape if data else flow.latent_shape
    return np.asarray(draw_points(support, (len(batch.x), *shape), rng), dtype=np.float64)


def level_module_names(flow: MultiScaled) -> list[str]:
    """Names of the modules of all levels."""
    return [name for level in flow.multi_scale.levels for name in level]


def contexts(flow: MultiScaled, batch: Batch) -> Array | None:
    """The contexts of the batch, None if it takes none."""
    return None if flow.context_shape is None else batch.context


def flattened(value: Array, rows: int) -> Array:
    """Latents as ``(n, entries)``."""
    return np.asarray(value, dtype=np.float64).reshape(rows, -1)


def in_eval(flow: Living, step: Step[Outcome]) -> Outcome:
    """The outcome of a step in eval mode."""
    return flow.play([Eval(), step]).of(step)


def passages(flow: MultiScaled, trace: Sequence[Passed], rows: int) -> list[Passage]:
    """The input and output of every level, from the trace of its modules. Raises `Unsupported` if
    levels do not run one by one.
    """
    passed = []
    for level in flow.multi_scale.levels:
        runs = [run for run in trace if run.name in level]
        if not runs or runs[0].entered is None or runs[-1].value is None:
            raise Unsupported("its levels do not run one by one")
        entered, left = flattened(runs[0].entered, rows), flattened(runs[-1].value, rows)
        passed.append(Passage(entered, left, total_ladj(runs, rows)))
    return passed


def total_ladj(runs: Sequence[Passed], rows: int) -> Array:
    """The sum of the log-dets of some modules, ``(rows,)``."""
    ladjs = [per_point(run.ladj, rows) for run in runs if run.ladj is not None]
    return np.asarray(np.sum(ladjs, axis=0) + np.zeros(rows))


def traversal(flow: MultiScaled, batch: Batch) -> Traversal:
    """A call from data to latents at ordinary points. Raises `Unsupported` if it returns no
    log-det.
    """
    x, context, which = (
        ordinary_data_points(flow, batch),
        contexts(flow, batch),
        flow.multi_scale.call,
    )
    around = list(flow.multi_scale.around)
    *runs, whole = in_eval(flow, Trace(which, x, context, level_module_names(flow) + around))
    rows = len(x)
    beside = total_ladj([run for run in runs if run.name in around], rows)
    if whole.ladj is None:
        raise Unsupported("it returns no log-det")
    sign = -1.0 if flow.promises.get("ladj") == "inverse" else 1.0
    ladj = per_point(whole.ladj, rows) * sign
    return Traversal(x, passages(flow, runs, rows), flattened(whole.value, rows), ladj, beside)
