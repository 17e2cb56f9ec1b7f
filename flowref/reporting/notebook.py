"""A report in a notebook: a line for each target, which unfolds to its failures and unjudged laws.
Colors are those of the notebook, light or dark.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from flowref.model import Status, Verdict
from flowref.reporting.causes import Cause, by_size, explained
from flowref.reporting.coverage import skipped_check_lines as waiting_lines
from flowref.reporting.lines import target_labels, target_line
from flowref.reporting.outcomes import FAILING, violations
from flowref.reporting.text import clean, plain_statement
from flowref.reporting.words import (
    circumstances,
    explanations,
    inputs,
    reasons_with_laws,
    remark,
    seen,
)

if TYPE_CHECKING:
    from flowref.reporting.report import Report

# The most targets, failures of one target, and reasons that are shown; the rest is counted.
TARGETS, FAILURES, REASONS = 100, 20, 10
FRAME = "border-left: 3px solid; padding-left: 0.8em; margin: 0.2em 0 0.6em"
CELL = "text-align: left; vertical-align: top; padding: 0 0.8em 0 0; color: inherit"


def report_html(report: Report) -> str:
    """Return a report as an HTML fragment. Failing targets come first, unfolded if there are few;
    all text of a target is escaped.
    """
    groups = report.by_target()
    failing = {verdict.target for verdict in report.with_status(*FAILING)}
    order = sorted(groups, key=lambda target: target not in failing)
    parts = [f"<b>{_text(_headline(report))}</b>"]
    parts += [f"<div>{_text(problem.message)}</div>" for problem in report.problems]
    for target in order[:TARGETS]:
        parts.append(_target_html(report, target, groups[target], opened=len(failing) <= 3))
    if len(order) > TARGETS:
        parts.append(f"<div>and {len(order) - TARGETS} more targets</div>")
    return f'<div class="flowref">{"".join(parts)}</div>'


def _headline(report: Report) -> str:
    new = report.new_failures
    broken = sum(verdict.status is not Status.VIOLATED for verdict in new)
    what = violations(new) if len(new) > broken else "no violation"
    if broken:
        what += f", {broken} broken"
    number = len(report.targets)
    ended = "" if report.complete else "; interrupted"
    if failed := len(report.problems):
        ended = f"; {failed} could not be audited{ended}"
        if not number:
            return f"flowref: nothing was audited{ended}"
    return f"flowref: {what} in {number} target{'' if number == 1 else 's'}{ended}"


def _target_html(report: Report, target: str, verdicts: Sequence[Verdict], *, opened: bool) -> str:
    recognized = report.recognized.get(target)
    known = [one for one in report.known if one.target == target]
    called = target_labels(report.targets).get(target, target)
    line = _text(target_line(called, verdicts, recognized, known), " · ")
    causes = explained(verdicts)
    failures = by_size(verdict for verdict in verdicts if verdict.status in FAILING)
    failures.sort(key=lambda verdict: verdict.law in causes)
    inner = [_failure_table(report, one, causes) for one in failures[:FAILURES]]
    if len(failures) > FAILURES:
        inner.append(f"<div>and {len(failures) - FAILURES} more failures</div>")
    hints = () if recognized is None else recognized.hints
    quiet = [*waiting_lines(verdicts, hints), *_undecided(verdicts)]
    if quiet:
        items = "".join(f"<li>{_text(text)}</li>" for text in quiet)
        inner.append(f"<details><summary>not judged</summary><ul>{items}</ul></details>")
    unfolded = " open" if opened and failures else ""
    return f"<details{unfolded}><summary>{line}</summary>{''.join(inner)}</details>"


def _failure_table(report: Report, verdict: Verdict, causes: Mapping[str, Cause]) -> str:
    note = report.note(verdict.law)
    rows = list(_verdict_fields(verdict, note.statement if note else ""))
    if verdict.law in causes:
        rows = [*rows[:1], ("explained", causes[verdict.law].because)]
    cells = "".join(
        f'<tr><td style="{CELL}">{_text(name)}</td><td style="{CELL}">{_text(value)}</td></tr>'
        for name, value in rows
    )
    title = f"{verdict.status} {verdict.id} {verdict.law}"
    return f'<div style="{FRAME}"><b>{_text(title)}</b><table style="color: inherit">{cells}</table></div>'


def _verdict_fields(verdict: Verdict, statement: str) -> Iterator[tuple[str, str]]:
    case, numbers = verdict.counterexample, seen(verdict)
    named = (
        ("seen", numbers),
        ("the law", plain_statement(statement)),
        ("remark", "" if remark(verdict) == numbers else remark(verdict)),
        *explanations(verdict),
        ("input", "" if case is None else inputs(case)),
        ("under", "" if case is None else circumstances(case, verdict.part)),
    )
    return ((name, text) for name, text in named if text)


def _undecided(verdicts: Sequence[Verdict]) -> list[str]:
    found = [
        f"{str(status).lower().replace('_', ' ')}: {', '.join(laws[:3])}"
        f"{f' and {len(laws) - 3} more' if len(laws) > 3 else ''}: {reason}"
        for status in (Status.INCONCLUSIVE, Status.NOT_RUN)
        for reason, laws in reasons_with_laws(verdicts, status)
    ]
    return found[:REASONS]


def _text(text: str, between: str = " ") -> str:
    """Escape text for HTML, and dollars, which a notebook reads as mathematics. ``between``: the
    separator of columns.
    """
    parts = map(clean, filter(None, text.split("   ")))
    return html.escape(between.join(parts)).replace("$", "&#36;")
