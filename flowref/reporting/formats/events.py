"""The events of an audit as JSON lines, for a program that follows it.

Every object has ``event``: started, share, pair, target, problem, notice or finished. Readers
should ignore unknown events and fields.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from flowref.model import KnownFailure, Problem, Recognized, Status, Verdict
from flowref.reporting.report import Report
from flowref.reporting.words import seen

VERSION = 1


def event_line(event: str, **fields: Any) -> str:
    r"""Return one event as a line of text; numbers outside JSON become null.

    >>> event_line("notice", text="a")
    '{"event": "notice", "text": "a"}\n'
    """
    values = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in fields.items()
    }
    return json.dumps({"event": event, **values}, allow_nan=False) + "\n"


def started(flowref: str, targets: Sequence[str], laws: Sequence[str], earlier: int) -> str:
    """The audit starts; ``earlier``: number of pairs taken from an interrupted audit."""
    return event_line(
        "started",
        version=VERSION,
        flowref=flowref,
        targets=list(targets),
        laws=list(laws),
        pairs=len(targets) * len(laws),
        earlier=earlier,
    )


def pair(verdict: Verdict) -> str:
    """A pair is finished."""
    fields: dict[str, Any] = {"target": verdict.target, "law": verdict.law}
    fields |= {"status": str(verdict.status), "seconds": round(verdict.seconds, 6)}
    if verdict.reason:
        fields["reason"] = verdict.reason
    if verdict.evidence is not None:
        fields["margin"] = verdict.evidence.margin
    if verdict.status is Status.VIOLATED:
        fields |= {"id": verdict.id, "seen": seen(verdict)}
    if verdict.diagnosis:
        fields["diagnosis"] = verdict.diagnosis
    if verdict.proof:
        fields["proof"] = verdict.proof
    if verdict.repairs:
        fields["repairs"] = list(verdict.repairs)
    return event_line("pair", **fields)


def target(
    name: str,
    verdicts: Sequence[Verdict],
    recognized: Recognized | None,
    known: Sequence[KnownFailure],
) -> str:
    """All pairs of a target are finished."""
    fields: dict[str, Any] = {"target": name, "counts": _counts(verdicts)}
    if recognized is not None:
        fields["kind"] = recognized.kind
        if recognized.path:
            fields |= {"path": recognized.path, "line": recognized.line}
    if known:
        fields["known"] = dict(Counter(str(one.standing) for one in known))
    return event_line("target", **fields)


def problem(one: Problem) -> str:
    """A target cannot be audited."""
    return event_line("problem", target=one.spec, message=one.message)


def notice(text: str) -> str:
    """A message for the user."""
    return event_line("notice", text=text)


def finished(report: Report) -> str:
    """The audit ends; the last event."""
    return event_line(
        "finished",
        complete=report.complete,
        exit_code=report.exit_code,
        counts=_counts(report.verdicts),
        new=[verdict.id for verdict in report.new_failures],
        seconds=round(report.environment.seconds, 3),
    )


def _counts(verdicts: Sequence[Verdict]) -> dict[str, int]:
    return dict(Counter(str(verdict.status) for verdict in verdicts))
