"""A progress bar in a terminal; elsewhere nothing is drawn."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import click

# Columns of a bar other than text; text may contain fields as "{task.fields[name]}".
BAR, COUNT, ELAPSED, LEFT = "<bar>", "<count>", "<elapsed>", "<left>"


class Bar:
    """One bar on standard error, if that is a terminal. A context manager."""

    def __init__(self, *columns: str) -> None:
        self.columns = columns
        self._progress: Any = None
        self._task: Any = None

    @property
    def drawn(self) -> bool:
        """Whether there is a terminal."""
        return self._progress is not None

    def __enter__(self) -> Bar:
        if sys.stderr.isatty():
            self._progress = _progress(self.columns)
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = self._task = None

    def begin(self, description: str, total: float | None = None, **fields: Any) -> None:
        """Draw an empty bar instead of the previous one."""
        if self._progress is not None:
            if self._task is not None:
                self._progress.remove_task(self._task)
            self._task = self._progress.add_task(description, total=total, **fields)

    def update(self, **values: Any) -> None:
        """Set ``description``, ``total``, ``completed`` or a field."""
        if self._task is not None:
            self._progress.update(self._task, **values)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the bar, so that lines can be printed."""
        if self._progress is not None:
            self._progress.stop()
        try:
            yield
        finally:
            if self._progress is not None:
                self._progress.start()


class Pulse:
    """A timer for regular output; the first is due ``at_once``, or after ``seconds``."""

    def __init__(self, seconds: float, *, at_once: bool = False) -> None:
        self.seconds = seconds
        self.last = -math.inf if at_once else time.monotonic()

    def due(self) -> bool:
        """Whether ``seconds`` have passed since it was last due."""
        if time.monotonic() - self.last < self.seconds:
            return False
        self.restart()
        return True

    def restart(self) -> None:
        """Restart the timer."""
        self.last = time.monotonic()


def _progress(columns: tuple[str, ...]) -> Any:
    from rich import progress
    from rich.console import Console

    context = click.get_current_context(silent=True)
    plain = context is not None and context.color is False  # by --color never
    made: dict[str, Callable[[], Any]] = {
        BAR: lambda: progress.BarColumn(bar_width=24),
        COUNT: progress.MofNCompleteColumn,
        ELAPSED: progress.TimeElapsedColumn,
        LEFT: progress.TimeRemainingColumn,
    }
    drawn = [
        made[column]() if column in made else progress.TextColumn(column, markup=False)
        for column in columns
    ]
    return progress.Progress(
        *drawn,
        console=Console(stderr=True, no_color=plain or None),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
