"""The findings: a page for each cause, with its program, its numbers, and an issue that can be sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from causes import CLASSES, CONFIRMED, Finding
from flowref.model import Verdict, statement_of
from flowref.reporting import Report
from flowref.reporting.digest import library
from flowref.reporting.markup import code, escaped
from flowref.reporting.words import circumstances, evidence_text, inputs
from site_pages.pieces import fenced, statement, table

CONCERNS = {
    CONFIRMED: "The program was run and read, and the library's documentation declares no such convention.",
    "declared convention": "The library documents this behaviour; the law asks for another.",
    "undecided": "Whether it is an error is not clear from the documentation.",
}
# Libraries whose audit is published apart.
OF_JAX = ("flowjax", "numpyro", "bijx")
# Examples that a page shows; the others are listed by name.
SHOWN = 3


def pages(
    findings: Sequence[Finding],
    explained: Mapping[str, Sequence[Verdict]],
    report: Report,
    scripts: Path,
) -> dict[str, str]:
    """Path below the site -> Markdown."""
    made = {"findings/index.md": _index(findings, explained)}
    for finding in findings:
        text = (scripts / finding.script).read_text(encoding="utf-8") if finding.script else ""
        page = _finding(finding, explained.get(finding.id, ()), report, text)
        made[f"findings/{finding.id}.md"] = page
    return made


def _index(findings: Sequence[Finding], explained: Mapping[str, Sequence[Verdict]]) -> str:
    lines = [
        "# Findings",
        "",
        f"{sum(one.kind == CONFIRMED for one in findings)} confirmed bugs, and {sum(one.kind != CONFIRMED for one in findings)} "
        "causes that are conventions or undecided, explain every violation in the published audits. Each page has the law "
        "that is broken, the numbers measured, a program that shows it without flowref, and the text of an issue.",
        "",
    ]
    for kind in CLASSES:
        own = [finding for finding in findings if finding.kind == kind]
        if not own:
            continue
        lines += [f"## {kind.capitalize()}", "", CONCERNS[kind], ""]
        rows = [
            (
                f"[{escaped(one.title)}]({one.id}.md)",
                escaped(one.library),
                str(len(explained.get(one.id, ()))),
            )
            for one in sorted(own, key=lambda one: (one.library, one.title))
        ]
        lines += table(("cause", "library", "violations"), rows, "counted")
    return "\n".join(lines)


def _finding(finding: Finding, verdicts: Sequence[Verdict], report: Report, script: str) -> str:
    laws = list(dict.fromkeys(verdict.law for verdict in verdicts)) or list(finding.laws)
    lines = [
        f"# {escaped(finding.title)}",
        "",
        f"{escaped(finding.library)} · {finding.kind}. {CONCERNS[finding.kind]}",
        "",
        escaped(finding.cause),
        "",
        f"**Documentation.** {escaped(finding.documentation)}",
        "",
        "## Laws violated",
        "",
    ]
    for law in laws:
        if (note := report.note(law)) is not None:
            lines += [
                f"[`{law}`](../laws/{statement_of(law)}.md)",
                "",
                statement(note.statement),
                "",
            ]
    if verdicts:
        lines += ["## Measured", ""]
        for verdict in verdicts[:SHOWN]:
            lines += _measured(verdict)
        if len(verdicts) > SHOWN:
            lines += ['??? note "All of them"', ""]
            for one in verdicts:
                lines.append(f"    - {code(one.target)}: {code(one.law)}, {one.id}")
            lines.append("")
    if script:
        lines += [
            "## The program",
            "",
            "It needs the library, its framework and numpy, and ends with exit code 1 while the error is there.",
            "",
            *fenced(script, "python"),
            "## An issue",
            "",
            *fenced(issue(finding, verdicts, report, script), "markdown"),
        ]
    return "\n".join(lines)


def _measured(verdict: Verdict) -> list[str]:
    lines = [f"- {code(verdict.target)}, {code(verdict.law)}: {escaped(evidence_text(verdict))}"]
    if (case := verdict.counterexample) is not None:
        lines.append(f"    - at {code(inputs(case))}, {escaped(circumstances(case, verdict.part))}")
    if verdict.diagnosis:
        lines.append(f"    - diagnosis: {escaped(verdict.diagnosis)}")
    lines.append(f"    - `flowref replay {verdict.id} --report reports/{report_of(verdict)}`")
    return [*lines, ""]


def report_of(verdict: Verdict) -> str:
    """The published report that a verdict is in."""
    jax = library(verdict.target) in OF_JAX
    return "audit-jax.json" if jax else "audit.json"


def issue(finding: Finding, verdicts: Sequence[Verdict], report: Report, script: str) -> str:
    """A bug report for the library's tracker, in Markdown."""
    versions = ", ".join(f"{name} {version}" for name, version in report.environment.versions)
    lines = [finding.title, "", finding.cause, ""]
    law = next((verdict.law for verdict in verdicts), "")
    if (note := report.note(law)) is not None:
        lines += [f"Expected: {note.statement}", ""]
    if verdicts:
        lines += [f"Seen in {verdicts[0].target}: {evidence_text(verdicts[0])}", ""]
    lines += [
        "To reproduce (exit code 1 while the error is there):",
        "",
        "~~~python",
        script.rstrip("\n"),
        "~~~",
        "",
        f"Versions: {versions}; Python {report.environment.python}.",
    ]
    return "\n".join(lines)
