"""Findings: an audit joined to what is known of the causes of its violations.

    python reports/tools/findings.py AUDIT.json FINDINGS.toml --page PAGE.md

A finding is one cause, with the targets and laws it shows in, a class and a stand-alone script. A
violation that no finding explains, and a finding that explains nothing in a library that was
audited, are both errors: the page never says less or more than the audit. Exit codes: 0, 1 for such
an error or an audit that is not whole, 2 for a file that cannot be read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from causes import Joined, about, join, read
from findings_page import page
from flowref.model import ReportError, Status
from flowref.reporting import Report
from flowref.reporting.words import evidence_text


def complaints(report: Report, joined: Joined, *, partial: bool) -> Iterator[str]:
    """What is wrong, a line each. ``partial``: the audit covers only some targets, so that idle
    findings are no error.
    """
    for verdict in joined.unexplained:
        yield (
            f"no finding explains: {verdict.target} violates {verdict.law}: {evidence_text(verdict)}"
        )
    for finding in () if partial else about(joined.idle, report):
        yield (
            f"the finding {finding.id!r} explains no violation of this audit: it is fixed, or its "
            "globs are wrong"
        )
    for verdict in report.with_status(Status.CRASHED):
        yield f"crashed: {verdict.target} in {verdict.law}: {verdict.reason}"
    for problem in report.problems:
        yield f"could not be audited: {problem.spec}: {problem.message}"
    if not report.complete:
        yield "the audit was interrupted"


def main(arguments: Sequence[str] | None = None) -> int:
    """Join, write the page, and fail on what is unexplained or stale."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("report", type=Path, help="the JSON of an audit")
    parser.add_argument("findings", type=Path, help="the TOML of known causes")
    parser.add_argument("--page", type=Path, help="write the page for people here")
    parser.add_argument(
        "--partial",
        action="store_true",
        help="the audit covers only some targets: idle findings are no error",
    )
    choices = parser.parse_args(arguments)
    try:
        report, findings = Report.load(choices.report), read(choices.findings)
    except ReportError as error:
        print(f"flowref: {error}", file=sys.stderr)
        return 2
    joined = join(report, findings)
    active = [finding for finding in findings if joined.explained[finding.id]]
    if choices.page is not None:
        text = page(report, active, joined.explained, choices.report.name)
        choices.page.write_text(text, encoding="utf-8")
    wrong = list(complaints(report, joined, partial=choices.partial))
    for line in wrong:
        print(line)
    total = sum(map(len, joined.explained.values()))
    left = len(joined.unexplained)
    print(f"{len(active)} findings explain {total} violations; {left} violations are unexplained")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
