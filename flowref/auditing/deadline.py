"""A time-out in CPU time for code in this process, so that a busy machine causes no false
time-outs.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

# Raised again after this many seconds, in case that code swallowed it.
AGAIN = 5.0


class OutOfTime(BaseException):
    """The allowed CPU time is used up. Not an Exception: measured code does not catch it as an
    error of its own.
    """


@contextlib.contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` in any Python code after ``seconds`` of CPU time.

    Only in the main thread of a platform with such a timer, if it is unused; otherwise nothing
    happens. A call that never returns to Python is not interrupted.
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
