"""The first page: what flowref is, and what the last audit of the libraries says."""

from __future__ import annotations

import re
from collections.abc import Sequence

from causes import CONFIRMED, Finding
from flowref import registry
from flowref.model import Status
from flowref.reporting import Report
from flowref.reporting.digest import library
from flowref.scorecard.wording import number
from site_pages.pieces import bar, table, tiles

# Where the first page names findings.
FOUND = re.compile(r"<!-- found: (.*?) -->", re.DOTALL)
FLOWREF = "reference"


def page(words: str, report: Report, findings: Sequence[Finding]) -> str:
    """The text of `docs/index.md` with the numbers of the audit below it."""
    confirmed = sum(finding.kind == CONFIRMED for finding in findings)
    numbers = [
        (str(len(registry.laws())), "laws", False),
        (str(len(registry.mutants())), "mutants that they must catch", False),
        (str(len(report.targets)), "constructions audited", False),
        (number(report.counts[Status.HOLDS]), "times a law held", False),
        (number(report.counts[Status.VIOLATED]), "violations", True),
        (str(confirmed), "confirmed causes", True),
    ]
    words = words.replace("<!-- numbers -->", "\n".join(tiles(numbers)))
    words = words.replace("<!-- libraries -->", "\n".join(_libraries(report, findings)))
    return FOUND.sub(lambda mark: "\n".join(_found(mark[1].split(), report, findings)), words)


def _found(names: Sequence[str], report: Report, findings: Sequence[Finding]) -> list[str]:
    """How much was found, and the findings of these names, with the libraries that they are in."""
    by_name = {finding.id: finding for finding in findings if finding.kind == CONFIRMED}
    libraries = {library(target) for target in report.targets} - {FLOWREF}
    lines = [
        f"In {len(report.targets)} constructions of {len(libraries)} libraries, [{len(by_name)} confirmed "
        "causes](findings/index.md) of what is wrong, each with the smallest input that shows it and a program "
        "that needs the library alone. Among them:",
        "",
    ]
    found = [by_name[name] for name in names]
    return lines + [f"- {one.library}: [{one.title}](findings/{one.id}.md)" for one in found]


def _libraries(report: Report, findings: Sequence[Finding]) -> list[str]:
    names = sorted({library(target) for target in report.targets}, key=str.casefold)
    counted: dict[str, dict[Status, int]] = {name: {} for name in names}
    for verdict in report.verdicts:
        row = counted[library(verdict.target)]
        row[verdict.status] = row.get(verdict.status, 0) + 1
    rows = []
    for name in names:
        row = counted[name]
        holds, violated = row.get(Status.HOLDS, 0), row.get(Status.VIOLATED, 0)
        waits = row.get(Status.INCONCLUSIVE, 0) + row.get(Status.ERROR, 0)
        targets = sum(library(target) == name for target in report.targets)
        causes = sum(any(one.startswith(f"{name}:") for one in f.targets) for f in findings)
        rows.append(
            (
                f"`{name}`",
                str(targets),
                number(holds),
                number(violated),
                str(causes or ""),
                bar(holds, violated, waits),
            )
        )
    header = ("library", "constructions", "laws that held", "violations", "causes", "")
    return table(header, rows, "numbers")
