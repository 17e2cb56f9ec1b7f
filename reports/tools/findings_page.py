"""The page `findings.md`: confirmed findings with their scripts, the others in tables, and how it
was made.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence

from causes import CLASSES, CONFIRMED, Finding
from flowref.model import Status, Verdict
from flowref.reporting import Report
from flowref.reporting.causes import by_size
from flowref.reporting.digest import library
from flowref.reporting.markup import code, escaped
from flowref.reporting.severity import severity
from flowref.reporting.words import again, circumstances, evidence_text, inputs

# Report of a page -> the environment of tox that renews both.
MADE = {"audit.json": "audit-all", "audit-jax.json": "audit-jax"}
WIDTH = 100
UNFINISHED = (Status.ERROR, Status.CRASHED, Status.TIMEOUT, Status.NOT_RUN)


def page(
    report: Report,
    findings: Sequence[Finding],
    explained: Mapping[str, Sequence[Verdict]],
    name: str = "audit.json",
) -> str:
    """The whole page; ``explained``: the violations of each finding, by its id; ``name``: that of the
    report's file.
    """
    lines = _head(report, findings)
    for kind in CLASSES:
        own = sorted(
            (finding for finding in findings if finding.kind == kind),
            key=lambda finding: -largest(explained[finding.id]),
        )
        lines += [f"## {kind.capitalize()}", ""]
        if kind == CONFIRMED:
            for finding in own:
                lines += _section(finding, explained[finding.id], f"reports/{name}")
        else:
            lines += _table(own, explained)
    return "\n".join([*lines, *_undecided(report, name), *_made(report, name)])


def _paragraph(text: str) -> list[str]:
    """Prose in lines of at most a width and an empty line; none begins with what would make it a
    list, a heading or a quotation.
    """
    together = re.sub(r" (?=[-+=#>*|]|\d+[.)])", "\u00a0", text)
    lines = textwrap.wrap(together, WIDTH, break_long_words=False, break_on_hyphens=False)
    return [*(line.replace("\u00a0", " ") for line in lines), ""]


def _head(report: Report, findings: Sequence[Finding]) -> list[str]:
    libraries = {library(target) for target in report.targets} - {"reference"}
    counts = ", ".join(
        f"{report.counts[status]} {status.value.lower().replace('_', ' ')}"
        for status in Status
        if report.counts[status]
    )
    kinds = [finding.kind for finding in findings]
    causes = ", ".join(f"{kinds.count(kind)} {kind}" for kind in CLASSES)
    versions = ", ".join(f"{name} {version}" for name, version in report.environment.versions)
    return [
        f"# What the audit of {len(libraries)} flow libraries found",
        "",
        *_paragraph(
            f"{len(report.targets)} constructions of the libraries and of `flowref.reference` x "
            f"{len(report.laws)} laws, {len(report.verdicts)} pairs: {counts}."
        ),
        *_paragraph(
            f"The violations have {len(findings)} causes: {causes}. A cause is confirmed when its "
            "stand-alone script, which needs only the library, has been run and read, and the "
            "library's documentation declares no such convention."
        ),
        *_paragraph(
            f"{len(report.minor)} of the {report.counts[Status.VIOLATED]} violations are minor: below the rounding "
            "of single precision at every point measured. Causes are sorted by the nats per point of their largest error."
        ),
        *_paragraph(
            f"Versions: {versions}; Python {report.environment.python}"
            + f"; {report.environment.started[:10]}" * bool(report.environment.started)
            + "."
        ),
    ]


def _section(finding: Finding, verdicts: Sequence[Verdict], published: str) -> list[str]:
    lines = [
        f"### {escaped(finding.title)}",
        "",
        *_paragraph(f"Library: {finding.library}. {escaped(finding.cause)}"),
        *_paragraph(f"Documentation: {escaped(finding.documentation)}"),
        *(_paragraph(f"Workaround: {finding.workaround}.") if finding.workaround else ()),
        *(_paragraph(f"Upstream: <{finding.upstream}>") if finding.upstream else ()),
        f"Script: {_link(finding)}",
        "",
    ]
    best = max(
        verdicts,
        key=lambda verdict: (
            verdict.law.startswith(("bijection", "density")),
            verdict.counterexample is not None,
        ),
    )
    lines += [
        "For example:",
        "",
        f"- {code(best.target)} violates {code(best.law)}: {escaped(evidence_text(best))}",
    ]
    if (case := best.counterexample) is not None:
        where = escaped(circumstances(case, best.part))
        lines.append(f"- at {code(inputs(case))}, {where}")
    lines += [f"- {code(line)}" for line in again(best, "--report", published)[:1]]
    laws: dict[str, list[str]] = {}
    for verdict in verdicts:
        laws.setdefault(verdict.target, []).append(verdict.law)
    return [
        *lines,
        *_severity(verdicts),
        "",
        f"<details><summary>{_count(verdicts, 'violation')} in {_count(laws, 'construction')}"
        "</summary>",
        "",
        *(f"- {code(target)}: {', '.join(map(code, own))}" for target, own in sorted(laws.items())),
        "",
        "</details>",
        "",
    ]


def largest(verdicts: Sequence[Verdict]) -> float:
    """The largest error of violations, in nats per point; 0 where none is of a log-det or density."""
    return max((verdict.size.nats for verdict in verdicts if verdict.size), default=0.0)


def _severity(verdicts: Sequence[Verdict]) -> list[str]:
    """What the gravest violation makes wrong, and how many are minor."""
    minor = sum(verdict.minor for verdict in verdicts)
    text = severity(by_size(verdicts)[0])
    return [
        f"- {text}" + (f"; {minor} of {len(verdicts)} minor" if 0 < minor < len(verdicts) else "")
    ]


def _count(things: Sequence[object] | Mapping[str, object], noun: str) -> str:
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"


def _link(finding: Finding) -> str:
    return f"[`{finding.script}`]({finding.script})"


def _table(findings: Sequence[Finding], explained: Mapping[str, Sequence[Verdict]]) -> list[str]:
    lines = [
        "| cause | library | violations | why it is not counted as confirmed |",
        "|---|---|---|---|",
    ]
    for finding in findings:
        script = f" ({_link(finding)})" if finding.script else ""
        lines.append(
            f"| {escaped(finding.title)}{script} | {finding.library} "
            f"| {len(explained[finding.id])} | {escaped(finding.documentation)} |"
        )
    return [*lines, ""]


def _undecided(report: Report, name: str) -> list[str]:
    points = sum(verdict.counts.held for verdict in report.verdicts)
    undecided = sum(verdict.counts.undecided for verdict in report.verdicts)
    if report.omitted is not None:
        points += report.omitted.points
        undecided += report.omitted.undecided
    lines = [
        "## What was not decided",
        "",
        *_paragraph(
            f"{report.counts[Status.INCONCLUSIVE]} pairs are inconclusive as a whole; of the "
            f"points measured in all pairs {undecided} of {undecided + points} could not be "
            f"decided. Reasons for each pair are in `{pages_of(name)}`."
        ),
    ]
    if unfinished := report.with_status(*UNFINISHED):
        lines += ["| construction | law | outcome | reason |", "|---|---|---|---|"]
        lines += [
            f"| {code(v.target)} | {code(v.law)} | {v.status.value} | {escaped(v.reason[:160])} |"
            for v in unfinished
        ]
        lines.append("")
    return lines


def pages_of(name: str) -> str:
    """The page of a report, beside it."""
    return f"{name.removesuffix('.json')}.md"


def _made(report: Report, name: str) -> list[str]:
    environment = report.environment
    command = code(environment.command or "flowref audit")
    return [
        "## How this was made",
        "",
        *_paragraph(
            f"`tox -e {MADE.get(name, 'audit-all')}` runs {command} (profile {environment.profile}, seed "
            f"{environment.seed}, flowref {environment.flowref}), writes `{name}` and "
            f"`{pages_of(name)}`, and joins them to `findings.toml`, one entry per cause. It fails on a "
            "violation that no entry explains and on an entry that explains none. `flowref replay "
            f"--all --report reports/{name}` measures every counterexample again without searching."
        ),
    ]
