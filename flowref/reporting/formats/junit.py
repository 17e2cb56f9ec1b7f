"""A report as JUnit XML, which CI servers show as tests: a suite for each target, a case for each
law.

A violation is a failure; what broke is an error; what is known, was not decided, does not apply or
is advice is skipped, with its reason; what holds passes. A target that could not be loaded is a
suite with one error.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from xml.etree import ElementTree as ET

from flowref.model import Problem, Status, Verdict
from flowref.reporting.formats.outlook import Failure, failures, place
from flowref.reporting.report import Report
from flowref.reporting.text import clean

FAILURE, ERROR, SKIPPED, PASSED = "failure", "error", "skipped", "passed"
SKIPS = {
    Status.ADVICE: "advice, which accuses nobody",
    Status.INCONCLUSIVE: "not decided",
    Status.NOT_APPLICABLE: "does not apply",
    Status.NOT_RUN: "not run",
}
# What XML 1.0 cannot hold, not even escaped.
FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_junit(report: Report) -> str:
    """The report as JUnit XML."""
    failed = {(one.verdict.target, one.verdict.law): one for one in failures(report)}
    suites = [_unloadable(problem) for problem in report.problems]
    suites += [
        _suite(report, target, verdicts, failed) for target, verdicts in report.by_target().items()
    ]
    root = ET.Element("testsuites", {"name": "flowref"})
    root.extend(suites)
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.attrib[name]) for suite in suites)))
    root.set("time", f"{sum(float(suite.attrib['time']) for suite in suites):.3f}")
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _suite(
    report: Report,
    target: str,
    verdicts: Iterable[Verdict],
    failed: dict[tuple[str, str], Failure],
) -> ET.Element:
    suite = ET.Element("testsuite", {"name": _safe(target)})
    if report.environment.started:
        suite.set("timestamp", report.environment.started.removesuffix("Z"))
    path, line = place(report, target)
    outcomes: Counter[str] = Counter()
    seconds = 0.0
    for verdict in verdicts:
        case = ET.SubElement(suite, "testcase", _case(verdict))
        if path:
            case.set("file", _safe(path))
            case.set("line", str(line))
        outcome, message, lines = _outcome(verdict, failed.get((target, verdict.law)))
        if outcome != PASSED:
            attributes = {"message": _safe(message)}
            if outcome != SKIPPED:
                attributes["type"] = str(verdict.status)
            mark = ET.SubElement(case, outcome, attributes)
            if lines:
                mark.text = _safe("\n".join(lines))
        outcomes[outcome] += 1
        seconds += verdict.seconds
    _count(suite, outcomes, seconds)
    return suite


def _case(verdict: Verdict) -> dict[str, str]:
    return {
        "classname": _safe(verdict.target),
        "name": _safe(verdict.law),
        "time": f"{verdict.seconds:.3f}",
    }


def _outcome(verdict: Verdict, failure: Failure | None) -> tuple[str, str, list[str]]:
    """How a case counts, the message that goes with it, and what more is to be said."""
    if failure is not None:
        if failure.accepted:
            reason = "known" if failure.known is None else f"known: {failure.known.reason}"
            return SKIPPED, reason, failure.details
        kind = FAILURE if verdict.status is Status.VIOLATED else ERROR
        return kind, failure.headline, failure.details
    if (word := SKIPS.get(verdict.status)) is not None:
        return SKIPPED, f"{word}: {clean(verdict.reason)}" if verdict.reason else word, []
    return PASSED, "", []


def _unloadable(problem: Problem) -> ET.Element:
    """A target that could not be audited."""
    suite = ET.Element("testsuite", {"name": _safe(problem.spec)})
    names = {"classname": _safe(problem.spec), "name": "(loading)", "time": "0.000"}
    case = ET.SubElement(suite, "testcase", names)
    ET.SubElement(case, ERROR, {"message": _safe(problem.message), "type": "unloadable"})
    _count(suite, Counter({ERROR: 1}), 0.0)
    return suite


def _count(suite: ET.Element, outcomes: Counter[str], seconds: float) -> None:
    suite.set("tests", str(outcomes.total()))
    suite.set("failures", str(outcomes[FAILURE]))
    suite.set("errors", str(outcomes[ERROR]))
    suite.set("skipped", str(outcomes[SKIPPED]))
    suite.set("time", f"{seconds:.3f}")


def _safe(text: str) -> str:
    r"""Text that XML can hold: what it cannot is made visible.

    >>> _safe("a\x00b")
    'a\\x00b'
    """
    return FORBIDDEN.sub(lambda mark: ascii(mark[0])[1:-1], text)
