"""The findings: a page for each cause, with its program, its numbers, and an issue that can be sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from causes import CONFIRMED, Finding
from flowref.model import Verdict, statement_of
from flowref.reporting import Report
from flowref.reporting.causes import by_size
from flowref.reporting.digest import library
from flowref.reporting.markup import code, escaped
from flowref.reporting.severity import KINDS, kind, severity
from flowref.reporting.words import circumstances, evidence_text, inputs
from site_pages.numbers import Published
from site_pages.pieces import fenced, statement, table

CONCERNS = {
    CONFIRMED: "Confirmed: the program was run and read, and the library's documentation declares no such convention.",
    "declared convention": "A declared convention: the library documents this behaviour; the law asks for another.",
    "undecided": "Undecided: whether it is an error is not clear from the documentation.",
}
# What the table says of causes that are no confirmed bugs.
MARKS = {CONFIRMED: "", "declared convention": " (a convention)", "undecided": " (undecided)"}
# Examples that a page shows; the others are listed by name.
SHOWN = 3
# Parts of a page that a search need not find: they repeat it.
UNSEARCHED = "{ data-search-exclude }"


def pages(published: Published, scripts: Path) -> dict[str, str]:
    """Path below the site -> Markdown."""
    made = {"findings/index.md": _index(published)}
    for finding in published.findings:
        text = (scripts / finding.script).read_text(encoding="utf-8") if finding.script else ""
        made[f"findings/{finding.id}.md"] = _page(finding, published, text)
    return made


def _index(published: Published) -> str:
    confirmed = published.confirmed
    groups: dict[str, list[Finding]] = {}
    for finding in published.findings:
        groups.setdefault(finding.home, []).append(finding)
    lines = [
        "# Findings",
        "",
        f"{len(confirmed)} confirmed bugs in {len({one.home for one in confirmed})} libraries, and "
        f"{len(published.findings) - len(confirmed)} causes that are conventions or undecided: each violation of the "
        "published audits has a cause here. A page has the law that is broken, the numbers measured, a workaround, a "
        "program that shows the bug without flowref, and the text of an issue.",
        "",
        published.note().format(files="../files/reports")
        + " Causes without violations were measured apart, each by its program.",
        "",
    ]
    for name in sorted(groups, key=str.casefold):
        own = sorted(groups[name], key=lambda one: _gravity(one, published.explained[one.id]))
        versions = dict.fromkeys(published.version(one) for one in own)
        lines += [f"## {name}", "", f"Measured with {min(versions, key=len)}.", ""]
        rows = [
            (
                f"[{escaped(one.title)}]({one.id}.md){MARKS[one.kind]}",
                escaped(_size(one, published.explained[one.id])),
                str(len(published.explained[one.id]) or ""),
            )
            for one in own
        ]
        lines += table(("cause", "makes wrong", "violations"), rows, "counted")
    return "\n".join(lines)


def _size(finding: Finding, verdicts: Sequence[Verdict]) -> str:
    """What a cause makes wrong, and by how much."""
    if verdicts:
        return severity(by_size(verdicts)[0])
    worst = min(map(kind, finding.laws), key=KINDS.index)
    shown = max(map(abs, finding.off_by), default=0.0)
    return f"{worst}: off by {shown:.2g}" if shown else worst


def _gravity(finding: Finding, verdicts: Sequence[Verdict]) -> tuple[int, float, str]:
    """Confirmed bugs first, and of these the largest."""
    size = max((one.size.nats for one in verdicts if one.size), default=0.0)
    return list(MARKS).index(finding.kind), -size, finding.title


def _page(finding: Finding, published: Published, script: str) -> str:
    verdicts = published.explained[finding.id]
    report = (
        published.audits[report_of(verdicts[0])]
        if verdicts
        else next(iter(published.audits.values()))
    )
    laws = list(dict.fromkeys(verdict.law for verdict in verdicts)) or list(finding.laws)
    facts = {
        "library": escaped(finding.library),
        "measured with": escaped(published.version(finding)),
        "makes wrong": escaped(_size(finding, verdicts)),
        "status": CONCERNS[finding.kind],
        "workaround": finding.workaround[:1].upper()
        + finding.workaround[1:]
        + "." * bool(finding.workaround),
        "upstream": f"<{finding.upstream}>" if finding.upstream else "No issue is known.",
    }
    lines = [
        f"# {escaped(finding.title)}",
        "",
        escaped(finding.cause),
        "",
        *table(("", ""), [(name, text) for name, text in facts.items() if text], "facts"),
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
        lines += [f"## Measured {UNSEARCHED}", ""]
        for verdict in verdicts[:SHOWN]:
            lines += _measured(verdict)
        if len(verdicts) > SHOWN:
            lines += [f'??? note "All {len(verdicts)}"', ""]
            lines += [f"    - {code(one.target)}: {code(one.law)}, {one.id}" for one in verdicts]
            lines.append("")
    if script:
        lines += [
            f"## The program {UNSEARCHED}",
            "",
            "It needs the library, its framework and numpy, and ends with exit code 1 while the error is there.",
            "",
            *fenced(script, "python"),
            f"## An issue {UNSEARCHED}",
            "",
            *fenced(issue(finding, verdicts, report, script, published.versions), "markdown"),
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


# Libraries whose audit is published apart.
OF_JAX = ("flowjax", "numpyro", "bijx", "flax", "equinox")


def report_of(verdict: Verdict) -> str:
    """The published report that a verdict is in."""
    return "audit-jax.json" if library(verdict.target) in OF_JAX else "audit.json"


def issue(
    finding: Finding,
    verdicts: Sequence[Verdict],
    report: Report,
    script: str,
    versions: Mapping[str, str],
) -> str:
    """A bug report for the library's tracker, in Markdown."""
    own = [
        versions[name] for name in dict.fromkeys(map(library, finding.targets)) if name in versions
    ]
    framework = [
        f"{name} {version}"
        for name, version in report.environment.versions
        if name in ("torch", "jax")
    ]
    law = next((verdict.law for verdict in verdicts), "")
    lines = [finding.title, "", finding.cause, ""]
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
        f"Versions: {', '.join(dict.fromkeys([*own, *framework]))}; Python {report.environment.python}.",
    ]
    return "\n".join(lines)
