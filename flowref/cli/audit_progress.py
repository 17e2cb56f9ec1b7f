"""The progress of an audit: a line per target, and a bar in a terminal or a regular line elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from flowref.auditing.options import AuditListener
from flowref.auditing.schedule import ScheduledPair
from flowref.cli.screen import BAR, LEFT, Bar, Pulse
from flowref.model import KnownFailure, Law, Problem, Recognized, Status, Target, Verdict
from flowref.reporting.progress_counts import Count
from flowref.reporting.terminal import target_lines
from flowref.reporting.text import clean

HEARTBEAT = 30.0
WIDTH = 60
# First word of a line -> its style, readable on dark and light backgrounds.
BOLD_RED = {"fg": "red", "bold": True}
STYLES: dict[str, dict[str, Any]] = {
    "VIOLATED": BOLD_RED, "FAILED": BOLD_RED, "CRASHED": BOLD_RED, "TIMEOUT": BOLD_RED, "ERROR": BOLD_RED, "ADVICE": {"fg": "blue"},
    "minor": {"fg": "magenta"}, "All": {"fg": "green"},
}  # fmt: skip


def styled(line: str) -> str:
    """A line in the style of its first word."""
    word = line.split(maxsplit=1)[0] if line.split() else ""
    return click.style(line, **STYLES.get(word, {}))


class AuditProgress(AuditListener):
    """Prints a line per target when it is finished, expanded by its failures. A context manager.

    ``verbosity``: as in `reporting.audit_summary`. ``lines`` False: target lines go to standard error,
    since standard output carries a report; ``silent``: no target lines.
    """

    def __init__(self, *, verbosity: int = 0, lines: bool = True, silent: bool = False) -> None:
        self.verbosity, self.lines, self.silent = verbosity, lines, silent
        self.statements: dict[str, str] = {}
        self.count = Count()
        self.pulse = Pulse(HEARTBEAT)
        self.bar = Bar("{task.description}", BAR, "{task.fields[count]}", LEFT)

    def __enter__(self) -> AuditProgress:
        if self.verbosity >= 0:
            self.bar.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.__exit__(*error)

    def say(self, lines: Sequence[str]) -> None:
        """Print lines above the bar, failures in color."""
        with self.bar.paused():
            for line in lines:
                click.echo(styled(line), err=not self.lines)
        self.pulse.restart()

    def notice(self, text: str) -> None:
        """Print a message."""
        if self.verbosity >= 0:
            self._print_above_bar(f"flowref: {clean(text)}")

    def problem(self, problem: Problem) -> None:
        """Print why a target cannot be audited."""
        self._print_above_bar(f"flowref: {clean(problem.message)}")

    def _print_above_bar(self, line: str) -> None:
        with self.bar.paused():
            click.echo(line, err=True)

    def begin(self, targets: Sequence[Target], laws: Sequence[Law], earlier: int) -> None:
        """Announce the size of the audit, and whether it resumes an earlier one."""
        self.statements = {law.id: law.statement for law in laws}
        self.count = Count(len(targets) * len(laws))
        self.bar.begin("starting workers", self.count.total, count="")
        if earlier:
            self.notice(
                f"resuming an interrupted audit: {earlier} of {self.count.total} checks are done "
                "(--fresh starts from the beginning)"
            )

    def share(self, pairs: int) -> None:
        """Set the number of pairs of a partial audit."""
        self.count.total = pairs
        self.bar.update(total=pairs)

    def start(self, pair: ScheduledPair) -> None:
        """Show the current pair."""
        self.bar.update(description=clean(str(pair))[-WIDTH:])

    def verdict(self, verdict: Verdict) -> None:
        """Count a verdict."""
        self.count.add(verdict)
        self.bar.update(completed=self.count.done, total=self.count.total, count=str(self.count))
        if self.verbosity >= 0 and not self.bar.drawn and self.pulse.due():
            click.echo(f"{self.count}, at {clean(verdict.target)}", err=True)

    def target(
        self,
        target: Target,
        verdicts: Sequence[Verdict],
        recognized: Recognized | None = None,
        known: Sequence[KnownFailure] = (),
    ) -> None:
        """Print the lines of a target, unless none of its pairs was run."""
        if self.silent or all(verdict.status is Status.NOT_RUN for verdict in verdicts):
            return
        lines = target_lines(
            str(target),
            verdicts,
            self.statements,
            recognized,
            verbosity=self.verbosity,
            known=known,
        )
        self.say(lines)
