"""The memory and time budget of a (target, law) pair: counted, not timed."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from flowref.model.cost import CallCost

MEBIBYTE, SECOND = 2**20, 1e9
# Shares of a pair's memory that one call may hold, alone and together with the copies that it runs
# on; the rest is for comparisons.
SHARE_OF_MEMORY, SHARE_WITH_COPIES = 0.6, 0.9


class BudgetExceeded(BaseException):
    """Raised when the next call would exceed the pair's memory or time budget. Not an `Exception`, so that
    neither laws nor the measured code catch it as an error of a call.
    """

    @property
    def reason(self) -> str:
        """The reason, in a sentence."""
        return str(self)


@dataclass
class Budget:
    """The budget of a pair.

    ``memory``: bytes of one call; ``work``: nominal nanoseconds of all calls; ``reserve``: additional work
    for confirming a suspected violation; ``spent``: work requested so far; ``made``: keys of calls whose
    results are cached.
    """

    memory: float = math.inf
    work: float = math.inf
    reserve: float = 0.0
    spent: float = 0.0
    made: set[Hashable] = field(default_factory=set)

    def draw_on_reserve(self) -> None:
        """Add the reserve to the budget."""
        self.work, self.reserve = self.work + self.reserve, 0.0

    def ask(self, what: str, memory: float, work: float, copies: float = 0.0) -> None:
        """Spend work, and check memory next to ``copies`` bytes. Raises `BudgetExceeded` if the budget does not
        suffice.
        """
        if _limit(memory, copies) > _limit(self.memory):
            raise BudgetExceeded(f"not judged: {what} {too_large(memory, copies)}")
        self.foresee(what, work)
        self.spent += work

    def foresee(self, what: str, work: float) -> None:
        """Raise `BudgetExceeded` if so much work is not left, before any of it is spent."""
        if self.spent + work > self.work:
            raise BudgetExceeded(
                f"not judged: {what}, with what came before, {self.too_long(self.spent + work)}"
            )

    def too_long(self, work: float) -> str:
        """A sentence: how long the work takes, and the option that grants it."""
        return too_long(work, SHARE_OF_TIME * self.work / (self.work + self.reserve))

    @property
    def left(self) -> float:
        """The work that is left, in nominal nanoseconds."""
        return self.work - self.spent


# Planned share of a pair's CPU time, since work is counted roughly.
SHARE_OF_TIME = 0.6


def _limit(memory: float, copies: float = 0.0) -> float:
    """The memory limit of a pair, in bytes, that allows a call of ``memory`` next to ``copies``."""
    return max(memory / SHARE_OF_MEMORY, (memory + copies) / SHARE_WITH_COPIES)


def too_large(memory: float, copies: float = 0.0) -> str:
    """A sentence: how many bytes a call needs next to copies, and the option that grants them."""
    asked = 2 ** math.ceil(math.log2(max(1.0, _limit(memory, copies) / MEBIBYTE)))
    return f"needs {(memory + copies) / 2**30:.1f} GiB: --memory {asked}"


def asked_for(reason: str) -> int:
    """The mebibytes that such a sentence asks for; 0 if none."""
    found = ASKED.search(reason)
    return int(found[1]) if found else 0


def too_long(work: float, share: float = SHARE_OF_TIME) -> str:
    """A sentence: how long the work takes, and the option that grants the time; work may use ``share`` of
    it.
    """
    return f"takes about {_seconds_text(work / SECOND)} s: --timeout {_seconds_text(1.1 * work / SECOND / share)}s"


def _seconds_text(seconds: float) -> str:
    return f"{float(f'{max(1.0, seconds):.2g}'):.0f}"


# The part of a sentence that names the sufficient limit.
ASKED = re.compile(r"--memory (\d+)")
# Messages of failed allocations.
OUT_OF_MEMORY = re.compile(
    r"MemoryError|can't allocate memory|cannot allocate memory|unable to allocate|not enough "
    r"memory|bad_alloc",
    re.IGNORECASE,
)


def no_room() -> str:
    """A sentence: a call needs more memory than there is, and the option that may grant it."""
    allowed = current_budget().memory / SHARE_OF_MEMORY / MEBIBYTE
    if not math.isfinite(allowed):
        return "needs more memory than there is"
    return f"needs more than {allowed:.0f} MiB: --memory {2 * allowed:.0f}"


def affordable_rows(cost: CallCost, graphed: bool = False) -> int:
    """The maximal rows of one call, with or without autograd's graph; unlimited if calls are cheap."""
    if not cost.heavy:
        return 2**31
    now = current_budget()
    kept = cost.written if graphed else cost.held
    return min(cost.bulk.rows(now.left / 20), kept.rows(now.memory / 4), 2**31)


_BUDGETS: list[Budget] = [Budget()]


def current_budget() -> Budget:
    """The current budget; unlimited by default."""
    return _BUDGETS[-1]


@contextlib.contextmanager
def limited_budget(allowed: Budget) -> Iterator[Budget]:
    """Limit the budget inside this context."""
    _BUDGETS.append(allowed)
    try:
        yield allowed
    finally:
        _BUDGETS.pop()
