"""How much a law measures: it declares what is usual and what is enough, and what calls cost decides."""

from __future__ import annotations

import math
from typing import TypeVar

from flowref.model.abilities import Flow
from flowref.model.budget import affordable_rows

T = TypeVar("T")


def sparing(flow: Flow, operations: float = math.inf, call: str = "") -> bool:
    """Whether enough has to do: of calls that are heavy, or of one, or of a round trip of more operations than that."""
    cost = flow.facts.cost
    long = operations < math.inf and flow.operations > operations
    return long or (cost.of(call) if call else cost).heavy


def planned(flow: Flow, usual: T, enough: T, operations: float = math.inf) -> T:
    """What is measured of two amounts that a law declares."""
    return enough if sparing(flow, operations) else usual


def affordable_row_count(
    flow: Flow, usual: int, enough: int, *calls: str, graphed: bool = False
) -> int:
    """How many points calls by these names are given: as many as fit into what the pair may take, between enough
    and usual; with the graph of the call, or without.
    """
    fits = min(affordable_rows(flow.facts.cost.of(name), graphed) for name in calls)
    return max(enough, min(usual, fits))


def measured_share(flow: Flow, operations: float) -> float:
    """Which share of the usual is measured, where a round trip of so many operations still has all of it."""
    return min(1.0, operations / max(1, flow.operations))


def stepwise(flow: Flow, call: str) -> bool:
    """Whether a call takes many steps, so that each point of it is dear."""
    return flow.facts.cost.of(call).repeats


def call_work(flow: Flow, call: str, rows: float, times: float = 1) -> float:
    """The work of a call of so many points, made so often."""
    return times * flow.facts.cost.of(call).work.of(rows)


def rows_for(flow: Flow, call: str, work: float) -> int:
    """How many points one call may have that takes so much work."""
    return flow.facts.cost.of(call).work.rows(work)


def trained_by(flow: Flow, call: str) -> int:
    """How many operations a step takes that trains by a call: of a round trip, and of what is heavy of that call alone."""
    return 2 * flow.facts.cost.of(call).operations if sparing(flow) else flow.operations
