"""A report in a notebook: a line for each target, which unfolds to its failures and unjudged laws.
Colors are those of the notebook, light or dark.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence

from flowref.model import KnownFailure, Recognized, Status, Verdict
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

# The most targets, failures of one target, and reasons that are shown; the rest is counted.
TARGETS, FAILURES, REASONS = 100, 20, 10
FRAME = "border-left: 3px solid; padding-left: 0.8em; margin: 0.2em 0 0.6em"
CELL = "text-align: left; vertical-align: top; padding: 0 0.8em 0 0; color: inherit"


def report_html(
    title: str,
    problems: Iterable[str],
    groups: Mapping[str, Sequence[Verdict]],
    statements: Mapping[str, str],
    recognized: Mapping[str, Recognized],
    known: Sequence[KnownFailure],
) -> str:
    """Return a report as an HTML fragment. Failing targets come first, unfolded if there are few;
    all text of a target is escaped. ``groups``: target -> verdicts; ``statements``: by law.
    """
    failing = {
        target
        for target, verdicts in groups.items()
        if any(one.status in FAILING for one in verdicts)
    }
    order = sorted(groups, key=lambda target: target not in failing)
    called = target_labels(groups)
    parts = [f"<b>{_text(title)}</b>"]
    parts += [f"<div>{_text(message)}</div>" for message in problems]
    for target in order[:TARGETS]:
        verdicts, taken = groups[target], recognized.get(target)
        own = [one for one in known if one.target == target]
        line = _text(target_line(called[target], verdicts, taken, own), " · ")
        hints = () if taken is None else taken.hints
        opened = len(failing) <= 3
        parts.append(_target_html(line, verdicts, statements, hints, opened=opened))
    if len(order) > TARGETS:
        parts.append(f"<div>and {len(order) - TARGETS} more targets</div>")
    return f'<div class="flowref">{"".join(parts)}</div>'


def headline(new: Sequence[Verdict], number: int, failed: int, *, complete: bool) -> str:
    """Return the result of an audit in a sentence: its ``new`` failures in a ``number`` of targets, of
    which further ones ``failed`` to load.
    """
    broken = sum(verdict.status is not Status.VIOLATED for verdict in new)
    what = violations(new) if len(new) > broken else "no violation"
    if broken:
        what += f", {broken} broken"
    ended = "" if complete else "; interrupted"
    if failed:
        ended = f"; {failed} could not be audited{ended}"
        if not number:
            return f"flowref: nothing was audited{ended}"
    return f"flowref: {what} in {number} target{'' if number == 1 else 's'}{ended}"


def _target_html(
    line: str,
    verdicts: Sequence[Verdict],
    statements: Mapping[str, str],
    hints: Sequence[str],
    *,
    opened: bool,
) -> str:
    causes = explained(verdicts)
    failures = by_size(verdict for verdict in verdicts if verdict.status in FAILING)
    failures.sort(key=lambda verdict: verdict.law in causes)
    inner = [
        _failure_table(one, statements.get(one.law, ""), causes) for one in failures[:FAILURES]
    ]
    if len(failures) > FAILURES:
        inner.append(f"<div>and {len(failures) - FAILURES} more failures</div>")
    quiet = [*waiting_lines(verdicts, hints), *_undecided(verdicts)]
    if quiet:
        items = "".join(f"<li>{_text(text)}</li>" for text in quiet)
        inner.append(f"<details><summary>not judged</summary><ul>{items}</ul></details>")
    unfolded = " open" if opened and failures else ""
    return f"<details{unfolded}><summary>{line}</summary>{''.join(inner)}</details>"


def _failure_table(verdict: Verdict, statement: str, causes: Mapping[str, Cause]) -> str:
    rows = list(_verdict_fields(verdict, statement))
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
