"""The first page: what flowref is, and what the last audit of the libraries says."""

from __future__ import annotations

from collections.abc import Sequence

from causes import CONFIRMED, Finding
from flowref import registry
from flowref.model import Status
from flowref.reporting import Report
from flowref.reporting.digest import library
from site_pages.pieces import bar, table, tiles


def page(words: str, report: Report, findings: Sequence[Finding]) -> str:
    """The text of `docs/index.md` with the numbers of the audit below it."""
    confirmed = sum(finding.kind == CONFIRMED for finding in findings)
    numbers = [
        (str(len(registry.laws())), "laws", False),
        (str(len(registry.mutants())), "mutants that they must catch", False),
        (str(len(report.targets)), "constructions audited", False),
        (str(report.counts[Status.HOLDS]), "times a law held", False),
        (str(report.counts[Status.VIOLATED]), "violations", True),
        (str(confirmed), "confirmed causes", True),
    ]
    return words.replace("<!-- numbers -->", "\n".join(tiles(numbers))).replace(
        "<!-- libraries -->", "\n".join(_libraries(report, findings))
    )


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
                str(holds),
                str(violated),
                str(causes or ""),
                bar(holds, violated, waits),
            )
        )
    header = ("library", "constructions", "laws that held", "violations", "causes", "")
    return table(header, rows, "numbers")
