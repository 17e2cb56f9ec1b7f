"""The baseline file as text, and its update from a report."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from flowref.baseline.baseline_parser import VERSION
from flowref.baseline.entry import OUTCOMES, Baseline, Entry
from flowref.model import OBJECT, BaselineError, Standing, Status, Verdict, nearest
from flowref.reporting.causes import chain, explained
from flowref.reporting.outcomes import fails
from flowref.reporting.report import Report
from flowref.reporting.verdict_json import verdict_to_json

HEADING = """\
# Known failures of flowref, written by `flowref baseline update`. reason, issue, max-margin and
# expires are yours to edit; the cases are measured again as they stand.
"""


def known_failures_text(baseline: Baseline) -> str:
    """Return the baseline file as TOML: an entry per known failure, then the pinned cases, a line
    each.
    """
    parts = [f"{HEADING}version = {VERSION}"]
    for entry in sorted(baseline.recorded, key=lambda entry: (entry.target, entry.law)):
        lines = [
            "[[known]]",
            f"target = {_quoted(entry.target)}",
            f"law = {_quoted(entry.law)}",
            f"reason = {_quoted(entry.reason)}",
        ]
        for name, value in (("issue", entry.issue), ("case", entry.case)):
            lines += [f"{name} = {_quoted(value)}"] if value else []
        if entry.max_margin is not None:
            lines.append(f"max-margin = {entry.max_margin!r}")
        if entry.expires is not None:
            lines.append(f"expires = {entry.expires.isoformat()}")
        if entry.outcome != OUTCOMES[0]:
            lines.append(f"outcome = {_quoted(entry.outcome)}")
        parts.append("\n".join(lines))
    if baseline.cases:
        rows = [f"{name} = {_literal(case)}" for name, case in sorted(baseline.cases.items())]
        parts.append("\n".join(["[case]", *rows]))
    return "\n\n".join(parts) + "\n"


def _quoted(value: str) -> str:
    """A TOML string: JSON's, except that TOML also escapes DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _literal(case: Verdict) -> str:
    """A case without its figure as JSON in a TOML literal string, which needs no further escapes."""
    plain = verdict_to_json(replace(case, figure=None))
    return "'" + json.dumps(plain).replace("'", "\\u0027") + "'"


@dataclass
class Update:
    """A baseline updated from a report, with the failures that were added, renewed, kept, and left
    out as ``live`` objects; ``along``: those added because a named one explains them.
    """

    baseline: Baseline
    added: list[Verdict] = field(default_factory=list)
    renewed: list[Verdict] = field(default_factory=list)
    kept: list[Verdict] = field(default_factory=list)
    live: list[Verdict] = field(default_factory=list)
    along: list[Verdict] = field(default_factory=list)
    expired: list[Entry] = field(default_factory=list)


def updated(
    baseline: Baseline,
    report: Report,
    names: Sequence[str] = (),
    *,
    reason: str = "",
    issue: str = "",
    expires: datetime.date | None = None,
) -> Update:
    """Return the baseline after a report: all failures, or those of these short names with their
    consequences, become known.

    A known failure that has not changed is kept; of one that changed the case is recorded again,
    and its reason and issue stay. Raises: `BaselineError` for a name that no failure of the report
    has.
    """
    failures = list(filter(fails, report.verdicts))
    wanted = {name.strip().upper() for name in names}
    along = _consequences(report, wanted) if wanted else set()
    if unknown := sorted(wanted - {verdict.id for verdict in failures}):
        ids = sorted({verdict.id for verdict in failures})
        raise BaselineError(
            f"no failure {unknown[0]} in this report{nearest(unknown[0], ids)}; "
            f"{'it has ' + ', '.join(ids[:20]) if ids else 'it has none'}"
        )
    day = report.environment.started.partition("T")[0]
    reason = reason or f"recorded{f' on {day}' if day else ''}, not yet explained"
    update = Update(baseline)
    for verdict in failures:
        if wanted and verdict.id not in wanted | along:
            continue
        if verdict.target.startswith(f"{OBJECT}:"):
            update.live.append(verdict)
            continue
        update.along += [verdict] if verdict.id in along else []
        entry = update.baseline.entry(verdict.target, verdict.law)
        stands = report.known_failure(verdict)
        if entry is None:
            own = Entry(
                verdict.target,
                verdict.law,
                reason,
                issue,
                outcome=str(verdict.status),
                expires=expires,
            )
            _record(update, own, verdict, update.added)
        elif stands is not None and stands.standing is Standing.KNOWN:
            update.kept.append(verdict)
        else:
            _record_again(update, entry, verdict, expires)
    return update


def _consequences(report: Report, wanted: set[str]) -> set[str]:
    """Short names of the failures explained by the wanted ones, which are accepted with them."""
    found = set()
    for verdicts in report.by_target().values():
        causes = explained(verdicts)
        own = {verdict.law for verdict in verdicts if verdict.id in wanted}
        found |= {one.id for one in verdicts if own.intersection(chain(one.law, causes))}
    return found - wanted


def _record(update: Update, entry: Entry, verdict: Verdict, listed: list[Verdict]) -> None:
    baseline, name = update.baseline, ""
    if verdict.counterexample is not None:
        name = _unused_case_name(verdict, baseline)
        outcome = OUTCOMES[0] if verdict.status is Status.VIOLATED else str(verdict.status)
        entry = replace(entry, case=name, outcome=outcome)
        baseline = replace(baseline, cases={**baseline.cases, name: verdict.without_time()})
    update.baseline = replace(baseline, recorded=(*baseline.recorded, entry))
    listed.append(verdict)


def _record_again(
    update: Update, entry: Entry, verdict: Verdict, expires: datetime.date | None
) -> None:
    """Record the case of an existing entry again; reason and issue stay."""
    baseline = update.baseline
    if entry.expires is not None and expires is None and entry.expires < datetime.date.today():
        update.expired.append(entry)
        update.kept.append(verdict)
        return
    if entry not in baseline.recorded:  # declared in pyproject.toml, which flowref does not edit
        if entry.case and verdict.counterexample is not None and entry.case == verdict.id:
            cases = {**baseline.cases, entry.case: verdict.without_time()}
            update.baseline = replace(baseline, cases=cases)
            update.renewed.append(verdict)
        else:
            update.kept.append(verdict)
        return
    left = tuple(other for other in baseline.recorded if other != entry)
    update.baseline = replace(baseline, recorded=left).without(())
    changed = replace(entry, case="", outcome=str(verdict.status), expires=expires or entry.expires)
    _record(update, changed, verdict, update.renewed)


def _unused_case_name(verdict: Verdict, baseline: Baseline) -> str:
    """An unused name for a case: the short name of its pair, numbered if another pair has it."""
    number, name = 1, verdict.id
    while (other := baseline.cases.get(name)) is not None and (other.target, other.law) != (
        verdict.target,
        verdict.law,
    ):
        number += 1
        name = f"{verdict.id}-{number}"
    return name
