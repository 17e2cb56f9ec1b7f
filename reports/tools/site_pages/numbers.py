"""The numbers that several pages have, each counted once, with the date and the commit of what they count."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import causes
from causes import CONFIRMED, Finding
from flowref.model import Status, Verdict
from flowref.reporting import Report
from flowref.reporting.digest import library
from flowref.reporting.outcomes import LABELS, labels
from flowref.scorecard.phrases import grouped_digits
from site_pages.pieces import table


@dataclass(frozen=True)
class Published:
    """The published audits, by the name of their file, and the causes of their violations.

    ``commits``: where each file was written last; ``versions``: library of a target -> "package version".
    """

    audits: Mapping[str, Report]
    findings: Sequence[Finding]
    commits: Mapping[str, str]
    versions: Mapping[str, str]

    @classmethod
    def read(cls, reports: Path) -> Published:
        """From the folder of reports."""
        names = ("audit.json", "audit-jax.json")
        releases = tomllib.loads((reports / "releases.toml").read_text(encoding="utf-8"))
        return cls(
            {name: Report.load(reports / name) for name in names},
            causes.read(reports / "findings.toml"),
            {name: commit(reports / name) for name in names},
            {name: f"{one['package']} {one['version']}" for name, one in releases.items()},
        )

    @cached_property
    def explained(self) -> Mapping[str, list[Verdict]]:
        """The violations of each finding, by its id."""
        explained: dict[str, list[Verdict]] = {one.id: [] for one in self.findings}
        for report in self.audits.values():
            for name, verdicts in causes.join(report, self.findings).explained.items():
                explained[name] += verdicts
        return explained

    @property
    def confirmed(self) -> list[Finding]:
        """The findings that are bugs."""
        return [one for one in self.findings if one.kind == CONFIRMED]

    @property
    def constructions(self) -> int:
        """How many targets were audited."""
        return sum(len(report.targets) for report in self.audits.values())

    def count(self, *words: str) -> int:
        """How many pairs have one of these outcomes."""
        return sum(
            word in words for report in self.audits.values() for word in labels(report.verdicts)
        )

    def version(self, finding: Finding) -> str:
        """The releases that show a finding, as they were audited."""
        of = dict.fromkeys(library(target) for target in finding.targets)
        return ", ".join(self.versions[name] for name in of if name in self.versions)

    def note(self) -> str:
        """When and where the numbers were measured."""
        parts = [
            f"[{name}]({{files}}/{name}) of {report.environment.started[:10]}"
            + f" (commit {self.commits[name]})" * bool(self.commits[name])
            for name, report in self.audits.items()
        ]
        return f"Counted from {' and '.join(parts)}."

    def libraries(self) -> list[str]:
        """A table of what each library satisfies."""
        rows = [row for report in self.audits.values() for row in self._rows(report)]
        header = ("library", "constructions", "laws that held", "violations", "bugs")
        return table(header, sorted(rows, key=lambda row: row[0].casefold()), "numbers")

    def _rows(self, report: Report) -> Iterator[tuple[str, ...]]:
        counted: Counter[tuple[str, str]] = Counter()
        for verdict, word in zip(report.verdicts, labels(report.verdicts), strict=True):
            counted[library(verdict.target), word] += 1
        for name in {library(target) for target in report.targets}:
            bugs = sum(any(library(t) == name for t in one.targets) for one in self.confirmed)
            yield (
                f"`{name}`",
                str(sum(library(target) == name for target in report.targets)),
                grouped_digits(counted[name, LABELS[Status.HOLDS]]),
                grouped_digits(counted[name, LABELS[Status.VIOLATED]]),
                str(bugs or ""),
            )


def commit(path: Path) -> str:
    """The commit that wrote a file last; empty where there is no history."""
    if (git := shutil.which("git")) is None:
        return ""
    command = [git, "log", "-1", "--format=%h", "--", path.name]
    done = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, check=False)
    return done.stdout.strip()
