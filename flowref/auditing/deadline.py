"""A time-out for what runs in this process, in processor time, so that a busy machine accuses nobody."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

# Raised once more after so many seconds, in case that code swallowed it.
AGAIN = 5.0


class OutOfTime(BaseException):
    """More processor time passed than was allowed. Not an Exception: no code that is measured takes
    it for a failure of its own.
    """


@contextlib.contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` from whatever Python code runs after so many seconds of processor time.

    Only where the platform has such a timer, in the main thread, and where nobody else uses it;
    elsewhere nothing happens. A call that never comes back to Python is not ended.
    """
    if not _free():
        yield
        return
    before = signal.signal(signal.SIGVTALRM, _ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


def _free() -> bool:
    if not hasattr(signal, "ITIMER_VIRTUAL"):
        return False
    if threading.current_thread() is not threading.main_thread():
        return False
    idle = signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    return idle and signal.getsignal(signal.SIGVTALRM) is signal.SIG_DFL


def _ring(number: int, frame: FrameType | None) -> None:
    raise OutOfTime
