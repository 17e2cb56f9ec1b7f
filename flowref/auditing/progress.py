"""How far an audit is that Python code asked for: a line on a terminal, a bar in a notebook, and
nothing anywhere else.
"""

from __future__ import annotations

import contextlib
import html
import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from flowref.auditing.options import AuditListener
from flowref.auditing.schedule import ScheduledPair
from flowref.model import Law, Target, Verdict
from flowref.reporting.progress_counts import Count
from flowref.reporting.text import clean

# Seconds between two drawings, and the letters that a terminal's line has.
EVERY, WIDTH = 0.1, 79
# The shell of a notebook's kernel, which alone shows what is displayed.
KERNEL = "ZMQInteractiveShell"


@contextlib.contextmanager
def following(wanted: bool | None = None) -> Iterator[AuditListener]:
    """A listener that draws where a person looks, or where that is ``wanted``; what was drawn is
    gone afterwards.
    """
    display = None if wanted is False else _display()
    if display is not None:
        listener: AuditListener = Bar(display)
    elif wanted or (wanted is None and sys.stderr.isatty() and not _tested()):
        listener = ProgressLine()
    else:
        listener = AuditListener()
    try:
        yield listener
    finally:
        if isinstance(listener, Progress):
            listener.clear()


class Progress(AuditListener):
    """Counts checks and violations, and draws now and then."""

    def __init__(self) -> None:
        self.count = Count()
        self.hand, self.drawn = "", 0.0

    def begin(self, targets: Sequence[Target], laws: Sequence[Law], earlier: int) -> None:
        """The selection is made."""
        self.count = Count(len(targets) * len(laws))

    def start(self, pair: ScheduledPair) -> None:
        """A pair starts."""
        self.hand = clean(str(pair))
        if time.monotonic() - self.drawn > EVERY:
            self.draw()
            self.drawn = time.monotonic()

    def verdict(self, verdict: Verdict) -> None:
        """A pair is done."""
        self.count.add(verdict)

    def draw(self) -> None:
        """Show how far it is."""

    def clear(self) -> None:
        """Take away what was shown."""


class ProgressLine(Progress):
    """A line on standard error that is written over."""

    def draw(self) -> None:
        """Write it."""
        line = f"{self.count}  {self.hand}"[:WIDTH]
        print(f"\r{line:<{WIDTH}}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Blank it."""
        if self.drawn:
            print(f"\r{'':<{WIDTH}}\r", end="", file=sys.stderr, flush=True)


class Bar(Progress):
    """A bar in the output of a notebook's cell. ``display``: what shows a thing there."""

    def __init__(self, display: Any) -> None:
        super().__init__()
        self.display, self.handle = display, None

    def draw(self) -> None:
        """Show it, or show it anew."""
        bar = f'<progress max="{self.count.total}" value="{self.count.done}"></progress>'
        self._show(
            f"{bar} {html.escape(str(self.count))} <code>{html.escape(self.hand)}</code>",
            str(self.count),
        )

    def clear(self) -> None:
        """Leave nothing of it."""
        if self.handle is not None:
            self._show("", "")

    def _show(self, markup: str, text: str) -> None:
        data = {"text/html": markup, "text/plain": text}
        if self.handle is None:
            self.handle = self.display(data, raw=True, display_id=True)
        else:
            self.handle.update(data, raw=True)


def _display() -> Any:
    """What shows things in the notebook that this code runs in, or None: nothing is imported."""
    shell = sys.modules.get("IPython")
    if shell is None or type(shell.get_ipython()).__name__ != KERNEL:
        return None
    return sys.modules["IPython.display"].display


def _tested() -> bool:
    """Whether a test runner watches the terminal."""
    return "PYTEST_CURRENT_TEST" in os.environ
