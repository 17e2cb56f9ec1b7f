"""A report as a line for each failure, ``file:line: law: message``, for editors and `grep`."""

from __future__ import annotations

from flowref.reporting.formats.outlook import failures
from flowref.reporting.report import Report
from flowref.reporting.text import clean


def to_concise(report: Report) -> str:
    """Return a line for each target that could not be audited and each new failure. Library targets
    are named instead of file and line.
    """
    lines = [
        f"{clean(problem.spec)}: cannot be audited: {clean(problem.message)}"
        for problem in report.problems
    ]
    for failure in failures(report):
        if failure.accepted:
            continue
        verdict = failure.verdict
        place = f"{failure.path}:{failure.line}" if failure.path else clean(verdict.target)
        words = "minor: " * verdict.minor + (verdict.diagnosis or failure.headline)
        name = f" [{verdict.id}]" if verdict.counterexample is not None else ""
        lines.append(f"{place}: {verdict.law}: {clean(words)}{name}")
    return "".join(f"{line}\n" for line in lines)
