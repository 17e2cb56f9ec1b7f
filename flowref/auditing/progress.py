"""The progress of an audit from Python: a line in a terminal, a bar in a notebook, and nothing
elsewhere.
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

# Seconds between two updates, and the width of a terminal's line.
EVERY, WIDTH = 0.1, 79
# The class name of a notebook's shell; other shells display nothing.
KERNEL = "ZMQInteractiveShell"


@contextlib.contextmanager
def following(wanted: bool | None = None) -> Iterator[AuditListener]:
    """A listener that shows progress in a terminal or notebook, or if ``wanted``; what it showed is
    removed on exit.
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
    """Counts checks and violations, and redraws regularly."""

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
        """Show the progress."""

    def clear(self) -> None:
        """Remove what was shown."""


class ProgressLine(Progress):
    """A line on standard error that is overwritten."""

    def draw(self) -> None:
        """Write the line."""
        line = f"{self.count}  {self.hand}"[:WIDTH]
        print(f"\r{line:<{WIDTH}}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Blank the line."""
        if self.drawn:
            print(f"\r{'':<{WIDTH}}\r", end="", file=sys.stderr, flush=True)


class Bar(Progress):
    """A bar in the output of a notebook's cell. ``display``: IPython's display function."""

    def __init__(self, display: Any) -> None:
        super().__init__()
        self.display, self.handle = display, None

    def draw(self) -> None:
        """Show or update the bar."""
        bar = f'<progress max="{self.count.total}" value="{self.count.done}"></progress>'
        self._show(
            f"{bar} {html.escape(str(self.count))} <code>{html.escape(self.hand)}</code>",
            str(self.count),
        )

    def clear(self) -> None:
        """Remove the bar."""
        if self.handle is not None:
            self._show("", "")

    def _show(self, markup: str, text: str) -> None:
        data = {"text/html": markup, "text/plain": text}
        if self.handle is None:
            self.handle = self.display(data, raw=True, display_id=True)
        else:
            self.handle.update(data, raw=True)


def _display() -> Any:
    """IPython's display function in a notebook, else None; nothing is imported."""
    shell = sys.modules.get("IPython")
    if shell is None or type(shell.get_ipython()).__name__ != KERNEL:
        return None
    return sys.modules["IPython.display"].display


def _tested() -> bool:
    return "PYTEST_CURRENT_TEST" in os.environ
