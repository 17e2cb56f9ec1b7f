"""Replay: recorded violations measured again, without a search."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from flowref import registry
from flowref.auditing.selection import frameworks
from flowref.auditing.worker import import_frameworks, undisturbed
from flowref.baseline.entry import Baseline, Entry
from flowref.baseline.failure_status import known_failure, stand
from flowref.model import (
    OBJECT,
    FlowrefError,
    KnownFailure,
    ReportError,
    Status,
    Verdict,
    one_line,
)
from flowref.reporting.report import Report

STILL_FAILS, FIXED, ERROR = "STILL FAILS", "FIXED", "ERROR"


@dataclass(frozen=True)
class Replayed:
    """The result of a recorded violation."""

    recorded: Verdict
    label: str
    reason: str
    seconds: float
    now: Verdict | None = None


def replay_violations(verdicts: Iterable[Verdict], report: Report) -> Iterator[Replayed]:
    """Measure each recorded violation again, with the settings of its report."""
    from flowref.checking import Settings, other_weights, remeasure

    settings = Settings(report.environment.profile, report.environment.seed)
    for recorded in verdicts:
        began = time.perf_counter()
        now, label = None, ERROR
        if recorded.counterexample is None:
            reason = f"it was {recorded.status} in that report, which keeps no case of it to measure again"
        elif recorded.target.startswith(f"{OBJECT}:"):
            reason = "it was a live object of another process; audit it again from Python"
        else:
            try:
                law, case = registry.find_law(recorded.law), recorded.counterexample
                target = registry.parse_target(recorded.target)
                import_frameworks(frameworks([target]))
                with undisturbed():
                    now = remeasure(target, law, case, settings)
                    others = other_weights(target, case)
                label, reason = _replay_label(now)
                if others not in reason:
                    reason = "; ".join(filter(None, (reason, others)))
                if law.version != recorded.law_version:
                    reason = "; ".join(
                        filter(None, (reason, f"the law is now in version {law.version}"))
                    )
            except FlowrefError as error:
                reason = str(error)
            except Exception as error:
                reason = one_line(error)
        yield Replayed(recorded, label, reason, time.perf_counter() - began, now)


def standings(baseline: Baseline) -> Iterator[tuple[Entry, KnownFailure]]:
    """Yield each known failure with its standing, by its pinned case measured again without a
    search.
    """
    from flowref.checking import Settings, remeasure

    for entry in baseline.entries:
        pinned, now = baseline.pinned(entry), None
        if pinned is not None and (case := pinned.counterexample) is not None:
            try:
                target = registry.parse_target(pinned.target)
                import_frameworks(frameworks([target]))
                with undisturbed():
                    now = remeasure(target, registry.find_law(pinned.law), case, Settings())
            except FlowrefError as error:
                now = replace(pinned, status=Status.NOT_RUN, reason=str(error))
            except Exception as error:
                now = replace(pinned, status=Status.ERROR, reason=one_line(error))
        standing, detail = stand(entry, pinned, None, now)
        name = entry.target if pinned is None else pinned.target
        yield entry, known_failure(entry, name, standing, detail)


def _replay_label(now: Verdict) -> tuple[str, str]:
    if now.status in (Status.VIOLATED, Status.ADVICE):
        return STILL_FAILS, ""
    if now.status is Status.HOLDS:
        return FIXED, ""
    return ERROR, now.reason or f"it is now {now.status}"


def violation(report: Report, identity: str) -> tuple[Verdict, ...]:
    """Return the recorded violations with this short name.

    Raises: `ReportError` listing the existing ones.
    """
    verdicts = report.find(identity)
    if not verdicts:
        names = ", ".join(sorted(verdict.id for verdict in report.violations)[:20])
        raise ReportError(
            f"no violation {identity} in this report; "
            f"{f'it has {names}' if names else 'it has none'}"
        )
    return verdicts
