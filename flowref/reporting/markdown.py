"""A report as Markdown, for readers who do not know flowref."""

from __future__ import annotations

from flowref.model import KnownFailure, Recognized, Status, Verdict
from flowref.reporting import digest, sections
from flowref.reporting.causes import by_size, by_target, explained
from flowref.reporting.contents import LawNote
from flowref.reporting.markup import block, code, escaped, statement_text
from flowref.reporting.outcomes import FAILING
from flowref.reporting.report import Report
from flowref.reporting.words import (
    again,
    circumstances,
    evidence_text,
    explanations,
    inputs,
    remark,
)


def to_markdown(report: Report) -> str:
    """Return the whole report: summary, table of targets, failures, undecided laws with reasons,
    and the laws; a digest for a brief report.
    """
    if report.omitted is not None:
        parts = digest.page_sections(report)
    else:
        parts = [
            sections.head(report),
            sections.problems(report),
            sections.known_failure_section(report),
            _target_section(report),
            _failures(report),
            sections.proved(report),
            sections.recognition_section(report),
            sections.not_tested(report),
            *sections.quiet(report),
            sections.law_section(report.laws),
        ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _target_section(report: Report) -> list[str]:
    if not report.targets:
        return []
    table = sections.outcome_count_table("target", report.by_target(), sections.used(report))
    return ["## Targets", "", *table]


def _failures(report: Report) -> list[str]:
    lines: list[str] = []
    everything = report.by_target()
    for target, verdicts in by_target(report.with_status(*FAILING)).items():
        causes = explained(everything[target])
        for verdict in sorted(by_size(verdicts), key=lambda verdict: verdict.law in causes):
            because = causes[verdict.law].because if verdict.law in causes else ""
            note, known = report.note(verdict.law), report.known_failure(verdict)
            lines += [
                "",
                *_failure_section(verdict, note, because, known, report.recognized.get(target)),
            ]
    return ["## Failures", *lines] if lines else []


def _failure_section(
    verdict: Verdict,
    note: LawNote | None,
    because: str,
    known: KnownFailure | None,
    recognized: Recognized | None,
) -> list[str]:
    name = f"{verdict.id} " if verdict.status is Status.VIOLATED else ""
    lines = [f"### {name}{verdict.status}: {code(verdict.law)} in {code(verdict.target)}", ""]
    if note is not None:
        lines += [f"The law: {statement_text(note.statement)}", ""]
    if known is not None:
        notes = "; ".join(filter(None, (known.reason, known.issue, known.detail)))
        lines.append(f"- {str(known.standing).lower()}: {escaped(notes)}")
    if seen := evidence_text(verdict):
        lines.append(f"- seen: {escaped(seen)}")
    if because:
        lines.append(f"- explained: {because}")
    if text := remark(verdict):
        lines.append(f"- remark: {escaped(text)}")
    lines += [f"- {name}: {escaped(words)}" for name, words in explanations(verdict)]
    if (case := verdict.counterexample) is not None:
        lines.append(f"- input: {code(inputs(case))}")
        lines.append(f"- circumstances: {escaped(circumstances(case, verdict.part))}")
    if commands := again(verdict, recognized=recognized):
        return [*lines, "", "See it again:", "", *block(commands)]
    return [
        *lines,
        "",
        "This is a live object of the process that was audited; it cannot be replayed from here.",
    ]
