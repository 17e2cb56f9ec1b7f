"""A report as Code Quality JSON, which GitLab shows in merge requests.

An issue points at the line of its target; one of a library target names the target instead of a
file. Its fingerprint is that of SARIF.
"""

from __future__ import annotations

import json
from typing import Any

from flowref.model import Problem, Status
from flowref.reporting.formats.outlook import Failure, failures, target_location
from flowref.reporting.formats.sarif import hashed, result_fingerprint
from flowref.reporting.report import Report
from flowref.reporting.severity import LIKELIHOOD, SAMPLES, kind, severity
from flowref.reporting.text import clean

# Kinds of violations that make results wrong.
GRAVE = (LIKELIHOOD, SAMPLES)


def to_gitlab(report: Report) -> str:
    """Return a JSON list of issues: targets that could not be audited, new failures, and advice."""
    issues = [_unloadable(problem) for problem in report.problems]
    issues += [_issue(one, _severity(one)) for one in failures(report) if not one.accepted]
    for verdict in report.with_status(Status.ADVICE):
        issues.append(
            _issue(Failure(verdict, "", *target_location(report, verdict.target)), "info")
        )
    return json.dumps(issues, indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def _severity(failure: Failure) -> str:
    if failure.minor:
        return "minor"
    broken = failure.verdict.status is not Status.VIOLATED
    return "critical" if broken or kind(failure.verdict.law) in GRAVE else "major"


def _issue(failure: Failure, grade: str) -> dict[str, Any]:
    verdict = failure.verdict
    violated = verdict.status is Status.VIOLATED
    words = [severity(verdict)] if violated else []
    words.append(clean(verdict.diagnosis) or failure.headline)
    return {
        "description": f"{verdict.law} in {clean(verdict.target)}: {'; '.join(words)}",
        "check_name": verdict.law,
        "fingerprint": result_fingerprint(verdict),
        "severity": grade,
        "location": {
            "path": failure.path or clean(verdict.target),
            "lines": {"begin": max(failure.line, 1)},
        },
    }


def _unloadable(problem: Problem) -> dict[str, Any]:
    return {
        "description": f"cannot be audited: {clean(problem.message)}",
        "check_name": "flowref",
        "fingerprint": hashed(problem.spec),
        "severity": "blocker",
        "location": {"path": clean(problem.spec), "lines": {"begin": 1}},
    }
