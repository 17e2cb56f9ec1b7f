"""The cost of a subject's calls, counted and never timed: equal in every process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flowref.model.call import DRAWING

# Nominal nanoseconds of one dispatched operation, one written number, and one multiply-add, on one
# thread of an ordinary CPU in double precision.
OPERATION, ENTRY, PRODUCT = 8000.0, 1.5, 0.05
# Factors for numbers written by slower operators: reductions over a short last axis, random draws,
# selections and searches.
DEAR_ENTRIES = {
    "_softmax": 14.0, "_log_softmax": 14.0, "index": 6.0, "nonzero": 6.0, "where": 4.0, "softplus": 4.0,
    "sort": 12.0, "searchsorted": 25.0, "normal_": 15.0, "randn": 15.0, "randn_like": 15.0,
    "logaddexp": 5.0, "lgamma": 20.0, "digamma": 20.0,
}  # fmt: skip
# Nominal nanoseconds of reading a matrix entry for a product, which dominates for few rows.
READ = 0.3
# Ratio of work from which on a call is taken to iterate another one.
STEPS = 8.0
# Operations of a round trip from which on, as for ODE solvers, a first pass is shorter.
LENGTHY = 2500
# Cost of a backward pass relative to the forward pass.
BACKWARD = 2.0
# An ordinary batch, and the bytes and nominal nanoseconds from which on it is planned.
BATCH, LARGE, LONG = 48, 2.0**27, 2e8


@dataclass(frozen=True)
class LinearCost:
    """An affine function of the rows of a batch."""

    fixed: float = 0.0
    per_row: float = 0.0

    def of(self, rows: float) -> float:
        """The quantity for a number of rows."""
        return self.fixed + rows * self.per_row

    def rows(self, most: float) -> int:
        """The maximal number of rows, at least 0, for which the quantity is at most ``most``."""
        left = most - self.fixed
        if self.per_row <= 0:
            return 0 if left < 0 else 2**31
        return max(0, int(min(left / self.per_row, 2**31)))


@dataclass(frozen=True)
class CallCost:
    """The cost of one call.

    ``operations``: dispatched with one row;
    ``work``: nominal nanoseconds;
    ``written``: bytes of all intermediate results, which a graph keeps;
    ``held``: maximal bytes held at one time without a graph, apart from those of its own backward passes;
    ``complete``: False if the call was cut short, so that the counts are lower bounds;
    ``walks``: whether it runs backward passes itself;
    ``repeats``: whether it iterates with constant parameters, whose derived values are cached;
    ``redrawn``: draws between two evaluations of a field, as in `Observation`.
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
        """The work without dispatching, which grows with the size of a model."""
        return LinearCost(max(0.0, self.work.fixed - self.dispatch), self.work.per_row)

    @property
    def heavy(self) -> bool:
        """Whether an ordinary batch has to be planned."""
        return self.written.of(BATCH) > LARGE or self.bulk.of(BATCH) > LONG


@dataclass(frozen=True)
class Cost:
    """The costs of calls by name; ``state``: bytes of the object."""

    calls: Mapping[str, CallCost] = field(default_factory=dict)
    state: int = 0

    @property
    def heavy(self) -> bool:
        """Whether any call of points has to be planned; the number of samples is planned separately."""
        return any(call.heavy for name, call in self.calls.items() if name not in DRAWING)

    def of(self, name: str) -> CallCost:
        """The cost of a call; zero if it was not counted."""
        return self.calls.get(name, CallCost())


# For backends that do not count.
UNCOUNTED = Cost()


def work(operations: float, entries: float, products: float, read: float = 0.0) -> float:
    """Nominal nanoseconds of operations, written numbers, multiply-adds and matrix entries read."""
    return operations * OPERATION + entries * ENTRY + products * PRODUCT + read * READ
