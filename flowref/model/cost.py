"""What calls of a subject cost, counted and never timed: the same in every process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# The work of one dispatched operation, of one number that it writes, and of one product that it adds
# up, in nominal nanoseconds: what they take on an ordinary processor, one thread in double precision.
OPERATION, ENTRY, PRODUCT = 5000.0, 1.5, 0.05
# Walking a graph back takes about so many times as long as making it.
BACKWARD = 2.0


@dataclass(frozen=True)
class Line:
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
        return max(0, int(left / self.per_row))


@dataclass(frozen=True)
class CallCost:
    """What one call takes.

    ``operations``: dispatched with one row; ``work``: nominal nanoseconds; ``written``: bytes of
    all results on the way, which a graph keeps; ``held``: the most bytes of them that are held at
    one time where no graph keeps them. ``complete``: False of a call that was cut short; then it
    takes at least so much.
    """

    operations: int = 0
    work: Line = Line()
    written: Line = Line()
    held: Line = Line()
    complete: bool = True


@dataclass(frozen=True)
class Cost:
    """What calls of a subject take, by name, and ``state``: the bytes of what it holds."""

    calls: Mapping[str, CallCost] = field(default_factory=dict)
    state: int = 0

    def of(self, name: str) -> CallCost:
        """What a call takes; of one that was not measured, what the dearest takes."""
        known = self.calls.get(name)
        if known is not None or not self.calls:
            return known or CallCost()
        return max(self.calls.values(), key=lambda cost: cost.work.of(1))


# Of what no backend counts: nothing is known, and nothing is planned.
UNCOUNTED = Cost()


def work(operations: float, entries: float, products: float) -> float:
    """Operations, numbers written and products as nominal nanoseconds."""
    return operations * OPERATION + entries * ENTRY + products * PRODUCT
