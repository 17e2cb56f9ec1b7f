"""What calls of a subject cost, counted and never timed: the same in every process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flowref.model.call import DRAWING

# The work of one dispatched operation, of one number that it writes, and of one product that it adds
# up, in nominal nanoseconds: what they take on an ordinary processor, one thread in double precision.
OPERATION, ENTRY, PRODUCT = 8000.0, 1.5, 0.05
# How many times as much a number takes that these operators write: by their last axis, which in splines and
# sets is short, drawn at random, chosen or sought.
DEAR_ENTRIES = {
    "_softmax": 14.0, "_log_softmax": 14.0, "index": 6.0, "nonzero": 6.0, "where": 4.0, "softplus": 4.0,
    "sort": 12.0, "searchsorted": 25.0, "normal_": 15.0, "randn": 15.0, "randn_like": 15.0,
    "logaddexp": 5.0, "lgamma": 20.0, "digamma": 20.0,
}  # fmt: skip
# That of reading an entry of a matrix that is multiplied, which is most of what few rows take.
READ = 0.3
# A call that takes so many times the work of another repeats it, step by step.
STEPS = 8.0
# From so many operations of a round trip on, as solvers of differential equations take them, less is
# asked at first.
LENGTHY = 2500
# Walking a graph back takes about so many times as long as making it.
BACKWARD = 2.0
# An ordinary batch, and the bytes and nominal nanoseconds from which on one is worth planning.
BATCH, LARGE, LONG = 48, 2.0**27, 2e8


@dataclass(frozen=True)
class LinearCost:
    """A quantity that grows with the rows of a batch: a part for the parameters, and one per row."""

    fixed: float = 0.0
    per_row: float = 0.0

    def of(self, rows: float) -> float:
        """The quantity for so many rows."""
        return self.fixed + rows * self.per_row

    def rows(self, most: float) -> int:
        """The most rows for which the quantity is no larger; at least 0."""
        left = most - self.fixed
        if self.per_row <= 0:
            return 0 if left < 0 else 2**31
        return max(0, int(min(left / self.per_row, 2**31)))


@dataclass(frozen=True)
class CallCost:
    """What one call takes.

    ``operations``: dispatched with one row; ``work``: nominal nanoseconds; ``written``: bytes of
    all results on the way, which a graph keeps; ``held``: the most bytes of them that are held at
    one time where no graph keeps them, but those that the call walks itself. ``complete``: False of
    a call that was cut short; then it takes at least so much. ``walks``: whether it walks a graph
    itself; ``repeats``: whether it takes
    many steps with the same parameters, of which what comes of these alone is computed once.
    ``redrawn``: how many draws fell between two evaluations of a field, as `Observation` has it.
    """

    operations: int = 0
    work: LinearCost = LinearCost()
    written: LinearCost = LinearCost()
    held: LinearCost = LinearCost()
    complete: bool = True
    walks: bool = False
    repeats: bool = False
    redrawn: float = 0.0

    @property
    def dispatch(self) -> float:
        """The work of dispatching operations."""
        return self.operations * OPERATION

    @property
    def bulk(self) -> LinearCost:
        """The work besides: what grows with the size of a model."""
        return LinearCost(max(0.0, self.work.fixed - self.dispatch), self.work.per_row)

    @property
    def heavy(self) -> bool:
        """Whether what an ordinary batch takes is worth planning."""
        return self.written.of(BATCH) > LARGE or self.bulk.of(BATCH) > LONG


@dataclass(frozen=True)
class Cost:
    """What calls of a subject take, by name, and ``state``: the bytes of what it holds."""

    calls: Mapping[str, CallCost] = field(default_factory=dict)
    state: int = 0

    @property
    def heavy(self) -> bool:
        """Whether any call of points is worth planning: how many samples are drawn is planned by itself."""
        return any(call.heavy for name, call in self.calls.items() if name not in DRAWING)

    def of(self, name: str) -> CallCost:
        """What a call takes; nothing of one that was not counted."""
        return self.calls.get(name, CallCost())


# Of what no backend counts: nothing is known, and nothing is planned.
UNCOUNTED = Cost()


def work(operations: float, entries: float, products: float, read: float = 0.0) -> float:
    """Operations, numbers written, products and entries of factors as nominal nanoseconds."""
    return operations * OPERATION + entries * ENTRY + products * PRODUCT + read * READ
