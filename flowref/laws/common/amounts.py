"""How much a law measures: laws declare a usual and a minimal amount, and the cost of the calls
decides.
"""

from __future__ import annotations

import math
from typing import TypeVar

from flowref.model.abilities import Flow
from flowref.model.budget import affordable_rows

T = TypeVar("T")


def sparing(flow: Flow, operations: float = math.inf, call: str = "") -> bool:
    """Whether the minimal amount is measured: calls (or the named ``call``) are heavy, or a round
    trip takes more than ``operations``.
    """
    cost = flow.facts.cost
    long = operations < math.inf and flow.operations > operations
    return long or (cost.of(call) if call else cost).heavy


def planned(flow: Flow, usual: T, enough: T, operations: float = math.inf) -> T:
    """``enough`` for expensive flows (see `sparing`), else ``usual``."""
    return enough if sparing(flow, operations) else usual


def affordable_row_count(
    flow: Flow, usual: int, enough: int, *calls: str, graphed: bool = False
) -> int:
    """The number of rows for each of the named ``calls``: as many as fit the pair's memory and
    time budget, between ``enough`` and ``usual``. ``graphed``: the calls record an autograd graph.
    """
    fits = min(affordable_rows(flow.facts.cost.of(name), graphed) for name in calls)
    return max(enough, min(usual, fits))


def measured_share(flow: Flow, operations: float) -> float:
    """The share in (0, 1] of the usual amount: 1 for round trips of up to ``operations``,
    inversely proportional beyond.
    """
    return min(1.0, operations / max(1, flow.operations))


def stepwise(flow: Flow, call: str) -> bool:
    """Whether the cost of a call grows with every point, as of step-by-step solvers."""
    return flow.facts.cost.of(call).repeats


def call_work(flow: Flow, call: str, rows: float, times: float = 1) -> float:
    """The work of ``times`` calls with ``rows`` points each, in operations."""
    return times * flow.facts.cost.of(call).work.of(rows)


def rows_for(flow: Flow, call: str, work: float) -> int:
    """The largest number of rows that one call can have within ``work`` operations."""
    return flow.facts.cost.of(call).work.rows(work)


def trained_by(flow: Flow, call: str) -> int:
    """Operations of one training step by ``call``: for heavy flows those of the call, forward and
    backward, else a round trip.
    """
    return 2 * flow.facts.cost.of(call).operations if sparing(flow) else flow.operations
