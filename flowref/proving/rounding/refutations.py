"""Boxes on which a log-det is wrong everywhere: it differs from that of the Jacobian by more than
rounding explains.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from flowref.model import Support
from flowref.model.graph import Graph
from flowref.proving.numbers import NotModelled
from flowref.proving.rounding.boxes import Box, run_on
from flowref.proving.rounding.determinants import blocks, log_det_bounds
from flowref.proving.rounding.intervals import Intervals

# Smaller gaps in nats are not reported: rounded constants in code, and thresholds of softplus,
# cause them.
LEAST = 1e-6
# The widest box around a point, relative to one and the size of the point, and how often it is
# halved.
WIDEST, HALVED = 4.0, 40
# The relative step of finite differences.
STEP = 1e-4


@dataclass(frozen=True)
class Refutation:
    """``box``: on all of it the log-det is off by at least ``gap`` nats; ``middle``: the point
    that it is grown around; ``reported``, ``true``: the log-dets there, the latter by finite
    differences; ``context``: flat, as given.
    """

    box: Box
    gap: float
    middle: tuple[float, ...]
    reported: float
    true: float
    context: tuple[float, ...] = ()

    @property
    def width(self) -> float:
        """The width of the widest side."""
        return max(high - low for low, high in zip(self.box.low, self.box.high, strict=True))

    def check(self, graph: Graph) -> bool:
        """Whether the log-det is off by as much again."""
        context = None if graph.given is None else np.array(self.context).reshape(graph.given[1])
        ends = np.array([self.box.low]), np.array([self.box.high])
        return bool(_gaps(graph, *ends, context)[0] >= self.gap)


# The log-det that an object reports at a point, and that of its Jacobian.
Measure = Callable[[Any], tuple[float, float]]


def refutation(
    graph: Graph, points: Any, domain: Support, measure: Measure, context: Any = None
) -> Refutation | None:
    """The largest box around one of ``points``, (count, entries), on which the log-det is off by
    more than half of its error at the point; None if there is no gap, or if measurements there
    do not show it.
    """
    # With conditions in code the graph holds for one outcome only.
    if graph.outputs[1] is None or domain.joint or graph.guards:
        return None
    try:
        gaps = _gaps(graph, points, points, context)
        best = int(gaps.argmax())
        if not gaps[best] > LEAST:
            return None
        point = points[best]
        radii = WIDEST * np.maximum(1.0, abs(point)) * 0.5 ** np.arange(HALVED)[:, None] / 2
        low, high = (np.broadcast_to(end, point.shape) for end in domain.ends)
        around = (
            np.maximum(point - radii, np.nextafter(low, np.inf)),
            np.minimum(point + radii, np.nextafter(high, -np.inf)),
        )
        grown = _gaps(graph, *around, context)
    except NotModelled:
        return None
    wide = np.flatnonzero(grown > gaps[best] / 2)
    if not len(wide):
        return None
    box = Box(*(tuple(end[wide[0]].tolist()) for end in around))
    reported, true = measure(point)
    if not abs(reported - true) > gaps[best] / 2:
        return None
    given = () if context is None else tuple(context.ravel().tolist())
    gap = float(f"{grown[wide[0]]:.2g}")
    gap = gap if gap <= grown[wide[0]] else float(f"{grown[wide[0]] * 0.99:.2g}")
    return Refutation(
        box, min(gap, float(grown[wide[0]])), tuple(point.tolist()), reported, true, given
    )


def _gaps(graph: Graph, low: Any, high: Any, context: Any) -> Any:
    """A lower bound of the log-det's error on boxes (count, entries); not positive if nothing is
    shown.
    """
    values = run_on(graph, low, high, slopes=True, context=context)
    value, ladj = (values[one.name] for one in graph.outputs if one is not None)
    rows, nothing = graph.points[1][0], np.full(len(low), -np.inf)
    if (
        not isinstance(value, Intervals)
        or value.d is None
        or math.prod(value.shape) != math.prod(graph.points[1])
    ):
        return nothing
    if (matrices := blocks(value.d, rows)) is None:
        return nothing
    with np.errstate(all="ignore"):
        true = log_det_bounds(matrices)
        reported = ladj if isinstance(ladj, Intervals) else value.boxes.constant(ladj)
        least, most = (
            one.reshape(
                len(one), *((rows, -1) if reported.shape and reported.shape[0] == rows else (1, -1))
            )
            for one in reported.ends
        )
        ends = least.sum(-1) - 1e-12 * abs(least).sum(-1), most.sum(-1) + 1e-12 * abs(most).sum(-1)
        found = np.maximum(ends[0] - true[1], true[0] - ends[1])
    found = np.broadcast_to(np.where(np.isnan(found), -np.inf, found), (len(low), rows))
    return np.asarray(found.min(-1))


def compared_log_dets(call: Callable[[Any], tuple[Any, Any]], point: Any) -> tuple[float, float]:
    """The log-det that a call reports at a point, (entries,), and log |det J| of its value, by
    finite differences of order four. ``call``: maps points, (count, entries), to values and
    log-dets.
    """
    entries = len(point)
    step = STEP * np.maximum(1.0, abs(point))
    turns = np.array([1.0, -1.0, 2.0, -2.0])
    moved = point + (turns[:, None, None] * np.diag(step)).reshape(-1, entries)
    values, ladj = call(np.concatenate((point[None], moved)))
    near = np.asarray(values, float)[1:].reshape(4, entries, entries)
    slopes = (8 * (near[0] - near[1]) - (near[2] - near[3])) / (12 * step[:, None])
    reported = np.asarray(ladj, float)
    one = reported.reshape(len(moved) + 1, -1)[0].sum() if reported.size > 1 else reported.item()
    return float(one), float(np.linalg.slogdet(slopes)[1])
