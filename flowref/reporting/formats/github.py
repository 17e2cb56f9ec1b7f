"""A report for GitHub: a job summary, and an annotation at the line of each failure."""

from __future__ import annotations

import html

from flowref.model import Status
from flowref.reporting import sections
from flowref.reporting.coverage import share
from flowref.reporting.formats.outlook import LEVELS, Failure, failures, level
from flowref.reporting.markup import block, code
from flowref.reporting.outcomes import tally, violations
from flowref.reporting.report import Report
from flowref.reporting.text import clean

# GitHub rejects summaries above one MiB.
ROOM = 900_000
# Level of a failure -> the command that marks it.
COMMANDS = dict(zip(LEVELS, ("error", "warning", "notice"), strict=True))
# The most targets in a table; above that, only failing ones are listed.
ROWS = 60


def to_summary(report: Report) -> str:
    """Return the summary of a job as Markdown: outcome, targets, and each new failure folded."""
    found = list(failures(report))
    new = [one for one in found if not one.accepted]
    parts = [
        _head(report),
        sections.problems(report),
        _target_table(report),
        *([["### Failures"]] if new else []),
    ]
    text = "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"
    for index, failure in enumerate(new):
        more = "\n" + "\n".join(_collapsed_failure(failure)) + "\n"
        if len((text + more).encode()) > ROOM:
            left = len(new) - index
            return (
                text
                + f"\n{left} more failures are in the report; this summary is limited in size.\n"
            )
        text += more
    return text


def _head(report: Report) -> list[str]:
    verdict = violations(report.verdicts) if report.violations else "no law is violated"
    if report.known:
        new = sum(one.status is Status.VIOLATED for one in report.new_failures)
        verdict += f", {new or 'none'} new" if report.violations else ""
    number = len(report.targets)
    lines = [
        f"## flowref: {verdict} in {number} target{'' if number == 1 else 's'}",
        "",
        f"{tally(report.verdicts, report.known)}. {share(report.verdicts)} that apply were run.",
    ]
    if report.complete:
        return lines
    return [*lines, "", "**This audit was interrupted**: not every pair was reached."]


def _target_table(report: Report) -> list[str]:
    groups = report.by_target()
    if len(groups) <= ROWS:
        return (
            sections.outcome_count_table("target", groups, sections.used(report)) if groups else []
        )
    failing = {verdict.target for verdict in report.new_failures}
    shown = {name: group for name, group in groups.items() if name in failing}
    shown = dict(list(shown.items())[:ROWS])
    lines = sections.outcome_count_table("target", shown, sections.used(report)) if shown else []
    left = len(groups) - len(shown)
    kind = "" if len(shown) == len(failing) else f", {len(failing) - len(shown)} of them failing"
    return [*lines, "", f"and {left} more targets{kind}."]


def _collapsed_failure(failure: Failure) -> list[str]:
    verdict = failure.verdict
    title = f"{verdict.status} {verdict.law} in {verdict.target}: {failure.headline}"
    where = [f"Written in {code(f'{failure.path}:{failure.line}')}.", ""] if failure.path else []
    return [
        f"<details><summary>{html.escape(clean(title))}</summary>",
        "",
        *where,
        *block(failure.details),
        "",
        "</details>",
    ]


def to_annotations(report: Report) -> str:
    """Return a workflow command for each new failure and each target that could not be audited,
    which GitHub shows next to the source; explained failures are warnings, minor ones notices.
    """
    lines = [f"::error title=flowref::{_data(problem.message)}" for problem in report.problems]
    new = [failure for failure in failures(report) if not failure.accepted]
    for failure in sorted(new, key=lambda failure: LEVELS.index(level(failure))):
        verdict = failure.verdict
        place = f"file={_property(failure.path)},line={failure.line}," if failure.path else ""
        title = _property(f"flowref {verdict.status} {verdict.law}")
        text = _data("\n".join([verdict.target, *failure.details]))
        lines.append(f"::{COMMANDS[level(failure)]} {place}title={title}::{text}")
    return "".join(f"{line}\n" for line in lines)


def _data(text: str) -> str:
    r"""Escape the text of a workflow command, which ends with the line.

    >>> _data("50%\nmore")
    '50%25%0Amore'
    """
    lines = "\n".join(clean(line) for line in text.split("\n"))
    return lines.replace("%", "%25").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escape a property of a workflow command.

    >>> _property("a:b,c")
    'a%3Ab%2Cc'
    """
    return _data(text).replace(":", "%3A").replace(",", "%2C")
