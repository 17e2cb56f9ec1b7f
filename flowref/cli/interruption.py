"""Ctrl-C and SIGTERM: work ends early and keeps its results."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator

INTERRUPTED = 130  # the exit code


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt, as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def stopping() -> Iterator[Callable[[], bool]]:
    """Ctrl-C and SIGTERM set a flag, which the yielded function returns; a second one raises
    KeyboardInterrupt.
    """
    asked = False

    def ask(number: int, _: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
