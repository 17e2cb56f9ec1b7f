"""Measure the violations of a published report again, for the sizes of their errors.

    python reports/tools/sizes.py reports/audit.json              those without a size, or all by --all

Every other verdict stays. A pair that is no longer violated keeps its verdict and is named; exit code 1 then, else 0.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from flowref.auditing.audit_run import conduct
from flowref.auditing.options import Options
from flowref.auditing.pool import Limits
from flowref.cli.audit_progress import AuditProgress
from flowref.model import Verdict
from flowref.reporting import Report

TIMEOUT, MEMORY = 60.0, 4096


def pairs(report: Report, everything: bool) -> dict[str, list[str]]:
    """The laws that each target violates; by default of targets none of whose violations has a size."""
    found: dict[str, list[str]] = {}
    for verdict in report.violations:
        found.setdefault(verdict.target, []).append(verdict.law)
    sized = {verdict.target for verdict in report.violations if verdict.size or verdict.minor}
    return {name: laws for name, laws in found.items() if everything or name not in sized}


def measured(wanted: Mapping[str, Sequence[str]], report: Report, jobs: int) -> Report:
    """An audit of these pairs alone, as the report's was."""
    options = Options(
        profile=report.environment.profile,
        seed=report.environment.seed,
        jobs=jobs,
        limits=Limits(TIMEOUT, MEMORY),
        wanted=wanted,
    )
    laws = sorted({law for own in wanted.values() for law in own})
    with AuditProgress(lines=False) as listener:
        return conduct(list(wanted), laws, options, listener)


def renewed(report: Report, again: Report) -> tuple[Report, list[Verdict]]:
    """The report with violations as they were measured again, and those that are violated no longer."""
    new = {(one.target, one.law): one for one in again.violations}
    asked = {(one.target, one.law) for one in again.verdicts}
    lost = [one for one in report.violations if (one.target, one.law) in asked - new.keys()]
    verdicts = tuple(new.get((one.target, one.law), one) for one in report.verdicts)
    return replace(report, verdicts=verdicts), lost


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and write the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("report", type=Path, help="the JSON of an audit")
    parser.add_argument("--all", action="store_true", help="those that have a size, too")
    parser.add_argument("-j", "--jobs", type=int, default=2, help="worker processes")
    choices = parser.parse_args(arguments)
    report = Report.load(choices.report)
    wanted = pairs(report, choices.all)
    if not wanted:
        print("every violation has been measured")
        return 0
    report, lost = renewed(report, measured(wanted, report, choices.jobs))
    report.save(choices.report)
    for verdict in lost:
        print(f"no longer violated: {verdict.target}  {verdict.law}", file=sys.stderr)
    count, minor = len(report.violations), len(report.minor)
    print(f"{count} violations, {minor} of them minor")
    return 1 if lost else 0


if __name__ == "__main__":
    raise SystemExit(main())
