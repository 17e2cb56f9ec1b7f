"""What the measurement of a pair may take, and what it has asked for so far: counted, not timed."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from flowref.model.cost import CallCost

MEBIBYTE, SECOND = 2**20, 1e9
# Of the memory of a pair, what one call may hold, and what it may together with the copies that it is
# made on: the rest is for what is compared.
SHARE_OF_MEMORY, SHARE_WITH_COPIES = 0.6, 0.9


class Beyond(BaseException):
    """What would be asked for next does not fit, and is not tried. No `Exception`: neither a law nor
    the code that is measured may take it for a refusal.
    """

    @property
    def reason(self) -> str:
        """The sentence."""
        return str(self)


@dataclass
class Means:
    """What a pair may take: ``memory``, bytes of one call, and ``work``, nominal nanoseconds of all
    of them; ``reserve``: more work, for what turns out to be conspicuous. ``spent``: the work that
    was asked for so far. ``made``: what names the calls whose results are kept from here.
    """

    memory: float = math.inf
    work: float = math.inf
    reserve: float = 0.0
    spent: float = 0.0
    made: set[Hashable] = field(default_factory=set)

    def draw_on_reserve(self) -> None:
        """From now on the reserve may be spent as well."""
        self.work, self.reserve = self.work + self.reserve, 0.0

    def ask(self, what: str, memory: float, work: float, copies: float = 0.0) -> None:
        """Take so much, beside so many bytes of ``copies``. Raises `Beyond` where it is not there."""
        if _limit(memory, copies) > _limit(self.memory):
            raise Beyond(f"not judged: {what} {too_large(memory, copies)}")
        self.foresee(what, work)
        self.spent += work

    def foresee(self, what: str, work: float) -> None:
        """Raise `Beyond` where so much work is not there, before more is spent on the way to it."""
        if self.spent + work > self.work:
            raise Beyond(
                f"not judged: {what}, with what came before, {self.too_long(self.spent + work)}"
            )

    def too_long(self, work: float) -> str:
        """That work takes so long, and the option that grants it besides the reserve."""
        return too_long(work, SHARE_OF_TIME * self.work / (self.work + self.reserve))

    @property
    def left(self) -> float:
        """The work that may still be asked for."""
        return self.work - self.spent


# Of the processor time of a pair, what is planned with: work is counted roughly.
SHARE_OF_TIME = 0.6


def _limit(memory: float, copies: float = 0.0) -> float:
    """The bytes of a pair of which a call may hold so many, beside copies."""
    return max(memory / SHARE_OF_MEMORY, (memory + copies) / SHARE_WITH_COPIES)


def too_large(memory: float, copies: float = 0.0) -> str:
    """That a call needs so many bytes, beside copies, and the option that grants them."""
    asked = 2 ** math.ceil(math.log2(max(1.0, _limit(memory, copies) / MEBIBYTE)))
    return f"needs {(memory + copies) / 2**30:.1f} GiB: --memory {asked}"


def asked_for(reason: str) -> int:
    """The mebibytes that a sentence asks for; 0 for one that asks for none."""
    found = ASKED.search(reason)
    return int(found[1]) if found else 0


def too_long(work: float, share: float = SHARE_OF_TIME) -> str:
    """That work takes so long, and the option that grants the time, of which it may take a share."""
    return f"takes about {_seconds_text(work / SECOND)} s: --timeout {_seconds_text(1.1 * work / SECOND / share)}s"


def _seconds_text(seconds: float) -> str:
    """Seconds to two digits."""
    return f"{float(f'{max(1.0, seconds):.2g}'):.0f}"


# What says how much would be enough.
ASKED = re.compile(r"--memory (\d+)")
# What says that memory could not be allocated.
OUT_OF_MEMORY = re.compile(
    r"MemoryError|can't allocate memory|cannot allocate memory|unable to allocate|not enough "
    r"memory|bad_alloc",
    re.IGNORECASE,
)


def no_room() -> str:
    """That a call needs more memory than there is, and the option that may grant it."""
    allowed = means().memory / SHARE_OF_MEMORY / MEBIBYTE
    if not math.isfinite(allowed):
        return "needs more memory than there is"
    return f"needs more than {allowed:.0f} MiB: --memory {2 * allowed:.0f}"


def affordable_rows(cost: CallCost, graphed: bool = False) -> int:
    """How many rows one call of several may have, with its graph or without; as many as there are
    where calls are light.
    """
    if not cost.heavy:
        return 2**31
    now = means()
    kept = cost.written if graphed else cost.held
    return min(cost.bulk.rows(now.left / 20), kept.rows(now.memory / 4), 2**31)


_MEANS: list[Means] = [Means()]


def means() -> Means:
    """What may be asked for now; without end where nothing was said."""
    return _MEANS[-1]


@contextlib.contextmanager
def limited_budget(allowed: Means) -> Iterator[Means]:
    """Ask for no more than this inside."""
    _MEANS.append(allowed)
    try:
        yield allowed
    finally:
        _MEANS.pop()
