"""The first page: what flowref is, and what the last audit of the libraries says."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from causes import CONFIRMED, Finding
from flowref import registry
from flowref.model import Status
from flowref.reporting import Report
from flowref.reporting.digest import library
from flowref.reporting.outcomes import LABELS, labels
from flowref.scorecard.phrases import grouped_digits
from site_pages.pieces import table, tiles

# Where the first page names findings.
FOUND = re.compile(r"<!-- found: (.*?) -->", re.DOTALL)
FLOWREF = "reference"


def page(words: str, report: Report, findings: Sequence[Finding]) -> str:
    """The text of `docs/index.md` with the numbers of the audit below it."""
    confirmed = sum(finding.kind == CONFIRMED for finding in findings)
    numbers = [
        (str(sum(not law.is_case for law in registry.laws())), "laws", False),
        (str(len(registry.mutants())), "mutants that they must catch", False),
        (str(len(report.targets)), "constructions audited", False),
        (grouped_digits(report.counts[Status.HOLDS]), "times a law held", False),
        (
            grouped_digits(labels(report.verdicts).count(LABELS[Status.VIOLATED])),
            "violations",
            True,
        ),
        (str(confirmed), "confirmed bugs", True),
    ]
    words = words.replace("<!-- numbers -->", "\n".join(tiles(numbers)))
    words = words.replace("<!-- libraries -->", "\n".join(_libraries(report, findings)))
    return FOUND.sub(lambda mark: "\n".join(_found(mark[1].split(), report, findings)), words)


def _found(names: Sequence[str], report: Report, findings: Sequence[Finding]) -> list[str]:
    """How many bugs are confirmed, and those of these names."""
    by_name = {finding.id: finding for finding in findings if finding.kind == CONFIRMED}
    libraries = {one.library.partition(",")[0] for one in by_name.values()}
    lines = [
        f"[{len(by_name)} confirmed bugs](findings/index.md) in {len(libraries)} libraries, each with the smallest "
        "input that shows it and a program that needs the library alone. Among them:",
        "",
    ]
    found = [by_name[name] for name in names]
    return lines + [f"- {one.library}: [{one.title}](findings/{one.id}.md)" for one in found]


def _libraries(report: Report, findings: Sequence[Finding]) -> list[str]:
    counted: Counter[tuple[str, str]] = Counter()
    for verdict, word in zip(report.verdicts, labels(report.verdicts), strict=True):
        counted[library(verdict.target), word] += 1
    rows = []
    for name in sorted({library(target) for target in report.targets}, key=str.casefold):
        targets = sum(library(target) == name for target in report.targets)
        causes = sum(any(one.startswith(f"{name}:") for one in f.targets) for f in findings)
        held, violated = (counted[name, LABELS[one]] for one in (Status.HOLDS, Status.VIOLATED))
        rows.append(
            (
                f"`{name}`",
                str(targets),
                grouped_digits(held),
                grouped_digits(violated),
                str(causes or ""),
            )
        )
    return table(
        ("library", "constructions", "laws that held", "violations", "causes"), rows, "numbers"
    )
