"""A brief report as Markdown: a table of libraries, a line per failure, and the rest folded."""

from __future__ import annotations

from collections.abc import Iterable

from flowref.model import Status, Verdict
from flowref.reporting import sections
from flowref.reporting.causes import Cause, by_size, by_target, explained
from flowref.reporting.markup import code, escaped
from flowref.reporting.outcomes import FAILING
from flowref.reporting.report import Report
from flowref.reporting.words import evidence_text, explanations, remark

# Longer observations, arrays mostly, are in the JSON report only.
WIDTH = 100


def page_sections(report: Report) -> list[list[str]]:
    """Return the sections of the page, each a list of lines."""
    return [
        sections.head(report),
        sections.problems(report),
        sections.known_failure_section(report),
        _libraries(report),
        sections.proved(report),
        _failures(report),
        *sections.quiet(report),
        _collapsed_counts(report),
        sections.law_section(report.laws),
    ]


def library(target: str) -> str:
    """Return the library, file or package of a target.

    >>> library("zuko:NSF?features=3")
    'zuko'
    """
    return target.partition(":")[0]


def _by_library(verdicts: Iterable[Verdict]) -> dict[str, list[Verdict]]:
    groups: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault(library(verdict.target), []).append(verdict)
    return groups


def _libraries(report: Report) -> list[str]:
    if not report.targets:
        return []
    table = sections.outcome_count_table(
        "library", _by_library(report.verdicts), sections.used(report)
    )
    return ["## Libraries", "", *table]


def _failures(report: Report) -> list[str]:
    groups, everything = _by_library(report.with_status(*FAILING)), report.by_target()
    if not groups:
        return []
    lines = [
        "## Failures",
        "",
        "`flowref replay NAME` measures a violation again, `flowref script NAME` prints a program",
        "that shows it; `--report FILE` names the report that they read.",
    ]
    for name, verdicts in groups.items():
        lines += ["", f"### {escaped(name)}", ""]
        lines += ["| name | | law | target | seen |", "|---|---|---|---|---|"]
        for target, group in by_target(verdicts).items():
            causes = explained(everything[target])
            listed = sorted(by_size(group), key=lambda verdict: verdict.law in causes)
            lines += [_failure_row(verdict, causes.get(verdict.law)) for verdict in listed]
    return lines


def _failure_row(verdict: Verdict, cause: Cause | None) -> str:
    name = verdict.id if verdict.status is Status.VIOLATED else ""
    because = "" if cause is None else cause.because
    parts = [
        because,
        evidence_text(verdict, WIDTH),
        remark(verdict),
        *(words for _, words in explanations(verdict)),
    ]
    seen = escaped("; ".join(filter(None, parts)))
    pair = f"{code(verdict.law)} | {code(verdict.target)}"
    return f"| {name} | {verdict.status} | {pair} | {seen} |"


def _collapsed_counts(report: Report) -> list[str]:
    columns = sections.used(report)
    laws: dict[str, list[Verdict]] = {note.id: [] for note in report.laws}
    for verdict in report.verdicts:
        laws.setdefault(verdict.law, []).append(verdict)
    lines = ["## Counts"]
    for first, groups in (("target", report.by_target()), ("law", laws)):
        title = f"<details><summary>by {first}</summary>"
        table = sections.outcome_count_table(first, groups, columns)
        lines += ["", title, "", *table, "", "</details>"]
    return lines if report.verdicts else []
