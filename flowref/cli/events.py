"""The events of an audit, written for another program as they happen. If the reader goes away the
events end, and the audit continues.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import IO

import flowref
from flowref.auditing.options import AuditListener
from flowref.auditing.schedule import ScheduledPair
from flowref.model import KnownFailure, Law, Problem, Recognized, ReportError, Target, Verdict
from flowref.reporting.formats import events
from flowref.reporting.report import Report


class Followed(AuditListener):
    """Passes everything on to another listener, and writes events to a stream, if there is one."""

    def __init__(self, other: AuditListener, stream: IO[str] | None) -> None:
        self.other, self.stream = other, stream

    def write(self, text: str) -> None:
        """Write one line at once; the stream is dropped if its reader is gone."""
        if self.stream is None:
            return
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError) as error:
            if self.stream is sys.stdout:  # unflushed text would raise when Python exits
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self.stream = None
            if not isinstance(error, BrokenPipeError):
                self.other.notice(f"events end here: {error}")

    def begin(self, targets: Sequence[Target], laws: Sequence[Law], earlier: int) -> None:
        """The audit starts."""
        self.other.begin(targets, laws, earlier)
        ids = [law.id for law in laws]
        self.write(events.started(flowref.__version__, list(map(str, targets)), ids, earlier))

    def share(self, pairs: int) -> None:
        """The audit is a part of one."""
        self.other.share(pairs)
        self.write(events.event_line("share", pairs=pairs))

    def start(self, pair: ScheduledPair) -> None:
        """A pair starts."""
        self.other.start(pair)

    def verdict(self, verdict: Verdict) -> None:
        """A pair is finished."""
        self.other.verdict(verdict)
        self.write(events.pair(verdict))

    def problem(self, problem: Problem) -> None:
        """A target cannot be audited."""
        self.other.problem(problem)
        self.write(events.problem(problem))

    def target(
        self,
        target: Target,
        verdicts: Sequence[Verdict],
        recognized: Recognized | None = None,
        known: Sequence[KnownFailure] = (),
    ) -> None:
        """All pairs of a target are finished."""
        self.other.target(target, verdicts, recognized, known)
        self.write(events.target(str(target), verdicts, recognized, known))

    def notice(self, text: str) -> None:
        """A message for the user."""
        self.other.notice(text)
        self.write(events.notice(text))

    def finished(self, report: Report) -> None:
        """The audit ends."""
        self.write(events.finished(report))


@contextlib.contextmanager
def following(listener: AuditListener, where: str | int | None) -> Iterator[Followed]:
    """A listener that also writes events to a path, standard output (-) or an open descriptor.

    Raises: `ReportError` if that cannot be written.
    """
    if where is None:
        yield Followed(listener, None)
        return
    if where == "-":
        yield Followed(listener, sys.stdout)
        return
    try:
        opened = os.dup(where) if isinstance(where, int) else where
        stream = open(opened, "w", encoding="utf-8")  # noqa: SIM115  closed below
    except OSError as error:
        raise ReportError(f"events cannot be written to {where}: {error.strerror}") from None
    try:
        yield Followed(listener, stream)
    finally:
        with contextlib.suppress(OSError):  # unread events are lost
            stream.close()
