"""A report as JUnit XML, which CI servers show as tests: a suite for each target, a case for each
law that applies to its kind.

A violation is a failure; a crash, error or time-out is an error; known failures, undecided laws,
advice and minor violations are skipped with their reason; laws that hold pass. The other laws are
counted in a property of the suite, with the reasons that block laws. A target that could not be
loaded is a suite with one error. Elements and attributes are restricted to Jenkins' schema, the
narrowest in use; passing cases are as short as possible, since they are most of a large audit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from xml.etree import ElementTree as ET

from flowref.model import Problem, Status, Verdict
from flowref.reporting.coverage import concerns, skipped_check_lines
from flowref.reporting.formats.outlook import Failure, failures, target_location
from flowref.reporting.report import Report
from flowref.reporting.text import clean, shortened

FAILURE, ERROR, SKIPPED, PASSED = "failure", "error", "skipped", "passed"
SKIPS = {
    Status.ADVICE: "advice, which never counts",
    Status.INCONCLUSIVE: "not decided",
    Status.NOT_APPLICABLE: "not judged",
    Status.NOT_RUN: "not run",
}
# Characters that XML 1.0 forbids, even escaped.
FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# The most characters of a reason in a case's message; lists of tests show one line.
LINE = 200


def to_junit(report: Report) -> str:
    """The report as JUnit XML."""
    failed = {(one.verdict.target, one.verdict.law): one for one in failures(report)}
    suites = [_unloadable(problem) for problem in report.problems]
    suites += [
        _suite(report, target, verdicts, failed) for target, verdicts in report.by_target().items()
    ]
    root = ET.Element("testsuites", {"name": "flowref"})
    root.extend(suites)
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.attrib[name]) for suite in suites)))
    root.set("time", f"{sum(float(suite.attrib['time']) for suite in suites):.3f}")
    ET.indent(root, "")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _suite(
    report: Report,
    target: str,
    verdicts: Sequence[Verdict],
    failed: dict[tuple[str, str], Failure],
) -> ET.Element:
    suite = ET.Element("testsuite", {"name": _safe(target)})
    if report.environment.started:
        suite.set("timestamp", report.environment.started.removesuffix("Z"))
    path, _ = target_location(report, target)
    if path:
        suite.set("file", _safe(path))
    _note(suite, report, target, verdicts)
    outcomes: Counter[str] = Counter()
    for verdict in filter(concerns, verdicts):
        case = ET.SubElement(suite, "testcase", _case(verdict))
        outcome, message, text = _case_outcome(verdict, failed.get((target, verdict.law)))
        if outcome != PASSED:
            attributes = {"message": _safe(message)}
            if outcome != SKIPPED:
                attributes["type"] = str(verdict.status)
            mark = ET.SubElement(case, outcome, attributes)
            if text:
                mark.text = _safe("\n".join(text))
        outcomes[outcome] += 1
    _count(suite, outcomes, sum(verdict.seconds for verdict in verdicts))
    return suite


def _note(suite: ET.Element, report: Report, target: str, verdicts: Sequence[Verdict]) -> None:
    """Properties: what the target was recognized as, and what was not judged."""
    recognized = report.recognized.get(target)
    notes = [("recognized as", recognized.kind)] if recognized and recognized.kind else []
    hints = recognized.hints if recognized else ()
    notes += [("not judged", line) for line in skipped_check_lines(verdicts, hints)]
    other = sum(not concerns(verdict) for verdict in verdicts)
    notes += [("laws about something else", str(other))] if other else []
    if notes:
        group = ET.SubElement(suite, "properties")
        for name, value in notes:
            ET.SubElement(group, "property", {"name": name, "value": _safe(value)})


def _case(verdict: Verdict) -> dict[str, str]:
    return {
        "classname": _safe(verdict.target),
        "name": _safe(verdict.law),
        "time": f"{verdict.seconds:.3f}",
    }


def _case_outcome(verdict: Verdict, failure: Failure | None) -> tuple[str, str, Iterable[str]]:
    if failure is not None:
        if verdict.minor and not failure.accepted:
            return SKIPPED, f"minor: {shortened(failure.headline, LINE)}", failure.details
        if failure.accepted:
            reason = "known" if failure.known is None else f"known: {failure.known.reason}"
            return SKIPPED, reason, failure.details
        kind = FAILURE if verdict.status is Status.VIOLATED else ERROR
        where = [f"{failure.path}:{failure.line}"] if failure.path else []
        return kind, failure.headline, [*where, *failure.details]
    if (word := SKIPS.get(verdict.status)) is not None:
        reason = clean(verdict.reason)
        short = shortened(reason, LINE)
        return SKIPPED, f"{word}: {short}" if short else word, []
    return PASSED, "", []


def _unloadable(problem: Problem) -> ET.Element:
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
    r"""Text with characters that XML forbids escaped visibly.

    >>> _safe("a\x00b")
    'a\\x00b'
    """
    return FORBIDDEN.sub(lambda mark: ascii(mark[0])[1:-1], text)
