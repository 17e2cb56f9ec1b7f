"""Causes of violations: the entries of `findings.toml`, and which violations each explains."""

from __future__ import annotations

import fnmatch
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flowref.model import PUBLISHED, ReportError, Verdict, base_of
from flowref.reporting import Report
from flowref.reporting.digest import library

CONFIRMED, CONVENTION, UNDECIDED = CLASSES = ("confirmed", "declared convention", "undecided")
NEEDED = ("id", "title", "class", "library", "targets", "laws", "cause", "documentation")


@dataclass(frozen=True)
class Finding:
    """One cause. ``targets`` and ``laws`` are globs in which [ stands for itself; ``script`` is a
    path beside the file, ``off_by`` what it shows on inputs simpler than those of the audit; ``workaround``: what a
    user does until it is fixed; ``upstream``: the address of an issue about it.
    """

    id: str
    title: str
    kind: str
    library: str
    targets: tuple[str, ...]
    laws: tuple[str, ...]
    cause: str
    documentation: str
    script: str = ""
    off_by: tuple[float, ...] = ()
    workaround: str = ""
    upstream: str = ""

    @property
    def home(self) -> str:
        """The library itself, without those that have a copy of it."""
        return self.library.partition(",")[0]

    def explains(self, verdict: Verdict) -> bool:
        """Whether a violation is one of this cause's: of a law, or of a case of it."""
        laws = (verdict.law, base_of(verdict.law))
        return _matches(verdict.target, self.targets) and any(
            _matches(law, self.laws) for law in laws
        )


@dataclass(frozen=True)
class Joined:
    """An audit joined to causes: violations by the id of a finding, and what is left on each
    side.
    """

    explained: dict[str, list[Verdict]]
    unexplained: list[Verdict]
    idle: list[Finding]


def _matches(text: str, globs: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(text, glob.replace("[", "[[]")) for glob in globs)


def read(path: Path) -> tuple[Finding, ...]:
    """The findings of a file.

    Raises: `ReportError` naming the entry that is incomplete.
    """
    try:
        rows = tomllib.loads(path.read_text(encoding="utf-8")).get("finding", [])
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ReportError(f"{path} cannot be read as findings: {error}") from error
    return tuple(_finding(row, path) for row in rows)


def _finding(row: dict[str, Any], path: Path) -> Finding:
    name, script = row.get("id", "?"), row.get("script", "")
    if missing := [key for key in NEEDED if key not in row]:
        raise ReportError(f"the finding {name!r} in {path} lacks {', '.join(missing)}")
    if row["class"] not in CLASSES:
        classes = ", ".join(CLASSES)
        raise ReportError(f"the finding {name!r} has class {row['class']!r}; expected {classes}")
    if row["class"] == CONFIRMED and not script:
        raise ReportError(
            f"the finding {name!r} is confirmed but names no script; only what a script showed is "
            "confirmed"
        )
    if script and not (path.parent / script).is_file():
        raise ReportError(
            f"the finding {name!r} names the script {script}, which is not beside {path}"
        )
    return Finding(
        id=name,
        title=row["title"],
        kind=row["class"],
        library=row["library"],
        targets=tuple(row["targets"]),
        laws=tuple(row["laws"]),
        cause=row["cause"],
        documentation=row["documentation"],
        script=script,
        off_by=tuple(row.get("off_by", ())),
        workaround=row.get("workaround", ""),
        upstream=row.get("upstream", ""),
    )


def about(findings: Sequence[Finding], report: Report) -> list[Finding]:
    """The findings in what a report is of: libraries, or their models of published size, of which a
    library's audit says nothing.
    """
    audited = {_subject(target) for target in report.targets}
    return [one for one in findings if audited & {_subject(target) for target in one.targets}]


def _subject(target: str) -> tuple[str, bool]:
    """The library of a target or a glob, and whether it is of models of published size."""
    return library(target), target.partition(":")[2].startswith(PUBLISHED)


def join(report: Report, findings: Sequence[Finding]) -> Joined:
    """Violations by finding, violations that nothing explains, findings that explain nothing."""
    explained: dict[str, list[Verdict]] = {finding.id: [] for finding in findings}
    unexplained = []
    for verdict in report.violations:
        owners = [finding for finding in findings if finding.explains(verdict)]
        for owner in owners:
            explained[owner.id].append(verdict)
        if not owners:
            unexplained.append(verdict)
    idle = [finding for finding in findings if not explained[finding.id]]
    return Joined(explained, unexplained, idle)
