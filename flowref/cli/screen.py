"""What a person sees while an audit runs: a progress bar on a terminal, a line now and then
elsewhere.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import click

from flowref.auditing.running import Listener
from flowref.auditing.schedule import Pair
from flowref.model import Law, Problem, Status, Target, Verdict
from flowref.reporting.terminal import target_lines
from flowref.reporting.text import clean

HEARTBEAT = 30.0
STYLES = {"VIOLATED": "bold red", "CRASHED": "red", "TIMEOUT": "red", "ERROR": "red"}


class Screen(Listener):
    """Prints one line per target as it is done; failures expand. Use as a context manager.

    ``lines`` False sends the lines about targets to standard error, because standard output carries
    a report.
    """

    def __init__(self, *, verbose: bool = False, lines: bool = True) -> None:
        self.verbose, self.lines = verbose, lines
        self.statements: dict[str, str] = {}
        self.total = self.done = self.violations = 0
        self.printed = time.monotonic()
        self.bar: Any = None
        self.task: Any = None

    def __enter__(self) -> Screen:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeRemainingColumn,
            )

            self.bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TextColumn("{task.fields[violations]} violated", markup=False),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def say(self, lines: Sequence[str]) -> None:
        """Print lines above the bar."""
        if self.bar is not None:
            self.bar.stop()  # so that nothing is drawn over the lines, whichever stream they go to
        for line in lines:
            word = line.split(maxsplit=1)[0] if line.split() else ""
            color = "red" if word in STYLES else None
            click.echo(
                click.style(line, fg=color, bold=word == "VIOLATED" or None), err=not self.lines
            )
        self.printed = time.monotonic()
        if self.bar is not None:
            self.bar.start()

    def begin(self, targets: Sequence[Target], laws: Sequence[Law], known: int) -> None:
        """Announce the size of the audit, and whether it goes on with an earlier one."""
        self.statements = {law.id: law.statement for law in laws}
        self.total = len(targets) * len(laws)
        if self.bar is not None:
            self.task = self.bar.add_task("starting workers", total=self.total, violations=0)
        if known:
            self.notice(
                f"going on with an interrupted audit: {known} of {self.total} pairs are known "
                "(--fresh starts anew)"
            )

    def start(self, pair: Pair) -> None:
        """Show the pair in hand."""
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, description=clean(str(pair))[-60:])

    def verdict(self, verdict: Verdict) -> None:
        """Count."""
        self.done += 1
        self.violations += verdict.status is Status.VIOLATED
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, completed=self.done, violations=self.violations)
        elif time.monotonic() - self.printed > HEARTBEAT:
            self.printed = time.monotonic()
            where = clean(verdict.target)
            click.echo(
                f"{self.done} of {self.total} pairs, {self.violations} violated, at {where}",
                err=True,
            )

    def problem(self, problem: Problem) -> None:
        """A target that cannot be audited: its pairs are off the list."""
        if self.bar is not None:
            self.bar.stop()
        click.echo(f"cannot be audited: {clean(problem.message)}", err=True)
        if self.bar is not None:
            self.bar.start()

    def target(self, target: Target, verdicts: Sequence[Verdict]) -> None:
        """The line of a target; one that was not begun is left to the summary."""
        if all(verdict.status is Status.NOT_RUN for verdict in verdicts):
            return
        self.say(target_lines(str(target), verdicts, self.statements, verbose=self.verbose))

    def notice(self, text: str) -> None:
        """A remark."""
        if self.bar is not None:
            self.bar.stop()
        click.echo(f"flowref: {clean(text)}", err=True)
        if self.bar is not None:
            self.bar.start()
