"""What other programs read of a report: JUnit XML, SARIF, GitHub's summary and marks, a badge."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowref.model import (
    Condition,
    Counterexample,
    Evidence,
    KnownFailure,
    Problem,
    Recognized,
    Size,
    Standing,
    Status,
    Verdict,
)
from flowref.reporting.contents import Environment, LawNote
from flowref.reporting.formats import events
from flowref.reporting.formats.badge import to_badge
from flowref.reporting.formats.concise import to_concise
from flowref.reporting.formats.github import ROOM, ROWS, to_annotations, to_summary
from flowref.reporting.formats.gitlab import to_gitlab
from flowref.reporting.formats.junit import to_junit
from flowref.reporting.formats.sarif import FINGERPRINT, to_sarif
from flowref.reporting.outcomes import FAILING
from flowref.reporting.report import Report
from flowref.reporting.severity import kind, severity

SCHEMA = json.loads((Path(__file__).parent / "sarif.schema.json").read_text())
LAW = "map/log-det"
STATEMENTS = {LAW: r"The log-det is $\log|\det J|$. More.", "advice/shape": "Shapes agree."}
# A status and how JUnit counts it.
OUTCOMES = {
    Status.HOLDS: "",
    Status.VIOLATED: "failure",
    Status.ERROR: "error",
    Status.CRASHED: "error",
    Status.TIMEOUT: "error",
    Status.ADVICE: "skipped",
    Status.INCONCLUSIVE: "skipped",
    Status.NOT_APPLICABLE: None,
    Status.NOT_RUN: "skipped",
}
# Elements of the narrowest schema of JUnit in use, that of Jenkins: what they must have, what they may have
# besides, and what they hold.
JUNIT = {
    "testsuites": ("", "name time tests failures errors", "testsuite"),
    "testsuite": (
        "name tests failures errors",
        "group time skipped timestamp hostname id package file log url version",
        "properties testcase",
    ),
    "properties": ("", "", "property"),
    "property": ("name value", "", ""),
    "testcase": ("name", "time classname group", "skipped error failure"),
    "skipped": ("", "type message", ""),
    "error": ("", "type message", ""),
    "failure": ("", "type message", ""),
}
NASTY = "<script>&\"'\x00\x1b[31m\ufffe]]>::error::\n%25,`|"
CASE = Counterexample([[1.0, 2.0]], None, 3, Condition(), {"reported": 1.0, "autograd": 2.0})


def verdict(
    target: str = "flows.py:make", law: str = LAW, status: Status = Status.VIOLATED, why: str = ""
) -> Verdict:
    """A verdict with what belongs to one that accuses."""
    accusing = status in (Status.VIOLATED, Status.ADVICE)
    return Verdict(
        target,
        law,
        status,
        why,
        evidence=Evidence(1.0, 1e-12) if accusing else None,
        counterexample=CASE if accusing else None,
        seconds=0.25,
    )


def report_of(*verdicts: Verdict, **more: Any) -> Report:
    """A report on verdicts, whose targets stand in line 7 of a file."""
    targets = tuple(dict.fromkeys(one.target for one in verdicts))
    ids = dict.fromkeys([*STATEMENTS, *(one.law for one in verdicts)])
    notes = [LawNote(law, 1, STATEMENTS.get(law, "A law."), "claim", "rounding") for law in ids]
    taken = {name: Recognized("bijection", path="src/my flows.py", line=7) for name in targets}
    environment = Environment("0.1.0", "3.12", "Linux", command="flowref audit flows.py:make")
    fields = {"recognized": taken, **more}
    return Report(environment, tuple(notes), targets, tuple(verdicts), **fields)


def sarif(report: Report) -> dict[str, Any]:
    """The one run of a report's SARIF, which the schema accepts."""
    log = json.loads(to_sarif(report))
    jsonschema.validate(log, SCHEMA)
    (run,) = log["runs"]
    assert isinstance(run, dict)
    return run


def junit(report: Report) -> ET.Element:
    """A report as JUnit, once every element is one that the schema knows."""
    root = ET.fromstring(to_junit(report))
    for element in root.iter():
        must, may, inside = (set(words.split()) for words in JUNIT[element.tag])
        assert must <= set(element.attrib) <= must | may
        assert {child.tag for child in element} <= inside
    return root


@pytest.mark.parametrize(("status", "expected"), OUTCOMES.items())
def test_each_status_is_one_junit_outcome(status: Status, expected: str | None) -> None:
    """Violations are failures, what broke are errors, what was not decided is skipped with its
    reason, laws about something else are no tests, and the counts agree with the cases.
    """
    root = junit(report_of(verdict(status=status, why="for a reason")))
    cases = list(root.iter("testcase"))
    assert len(cases) == (expected is not None)
    assert [child.tag for case in cases for child in case] == ([expected] if expected else [])
    assert root[0].attrib["file"] == "src/my flows.py"
    for mark in root.iter("skipped"):
        assert mark.attrib["message"].endswith("for a reason")
    for mark in [*root.iter("failure"), *root.iter("error")]:
        assert (mark.text or "").startswith("src/my flows.py:7\n")
    plural = {"failure": "failures", "error": "errors"}
    for suite in (root, root[0]):
        counts = {name: suite.attrib[name] for name in ("failures", "errors")}
        assert counts == {
            name: str(int(name == plural.get(expected or ""))) for name in ("failures", "errors")
        }
        assert suite.attrib["tests"] == str(len(cases))
    assert root[0].attrib["skipped"] == str(int(expected == "skipped"))


def test_junit_says_once_what_was_not_judged() -> None:
    """Laws about something else are counted and cost nothing; those that wait are skipped, and what
    would enable them stands once for all; a law that holds takes little more than its names.
    """
    status = Status.NOT_APPLICABLE
    other = [verdict(law=f"other/{n}", status=status, why="promised nowhere") for n in range(200)]
    blocked = [
        replace(verdict(law=f"a/{n}", status=status, why="it offers no inverse"), blocked=True, remedy="say so")
        for n in range(5)
    ]  # fmt: skip
    held = [verdict(law=f"held/{n:03d}", status=Status.HOLDS) for n in range(100)]
    report = report_of(*other, *blocked, *held)
    root = junit(report)
    assert (root.attrib["tests"], root[0].attrib["skipped"]) == ("105", "5")
    notes = [(note.attrib["name"], note.attrib["value"]) for note in root.iter("property")]
    assert notes == [
        ("recognized as", "bijection"),
        ("not judged", "5 skipped: no inverse; say so"),
        ("laws about something else", "200"),
    ]
    for without, size in ((200, 60), (205, 5 * 150 + 150)):
        assert len(to_junit(report)) - len(to_junit(report_of(*report.verdicts[without:]))) < size
    names = sum(len(one.target) + len(one.law) for one in held)
    assert len(to_junit(report_of(*held))) < names + 60 * len(held) + 400


def test_a_known_failure_fails_nowhere() -> None:
    """What fails as it is known to is skipped in JUnit with its reason, suppressed in SARIF, and
    not marked; one that changed counts.
    """
    for standing, counted in ((Standing.KNOWN, False), (Standing.CHANGED, True)):
        known = KnownFailure("flows.py:make", LAW, standing, "quadrature", issue="https://i/1")
        report = report_of(verdict(), known=(known,))
        (case,) = junit(report).iter("testcase")
        assert case[0].tag == ("failure" if counted else "skipped")
        assert counted or "quadrature" in case[0].attrib["message"]
        (result,) = sarif(report)["results"]
        assert ("suppressions" in result) is not counted
        assert bool(to_annotations(report)) is counted
        assert ("<details>" in to_summary(report)) is counted
        assert ("1 violated" in to_badge(report)) is counted


def test_an_unloadable_target_is_an_error_everywhere() -> None:
    """A target without verdicts is not lost: a case in JUnit, a notification in SARIF, a mark, a
    line of the summary, and no green badge.
    """
    report = report_of(
        verdict(status=Status.HOLDS), problems=(Problem("nope.py:x", "no such file: nope.py"),)
    )
    root = junit(report)
    assert root.attrib["errors"] == "1"
    (invocation,) = sarif(report)["invocations"]
    assert invocation["executionSuccessful"] is False
    assert "no such file" in invocation["toolConfigurationNotifications"][0]["message"]["text"]
    assert to_annotations(report) == "::error title=flowref::no such file: nope.py\n"
    assert "no such file" in to_summary(report)
    assert json.loads(to_badge(report))["color"] == "orange"


def test_a_result_points_at_the_line_of_its_target() -> None:
    """SARIF and GitHub's marks name file and line; a path is a URI; a construction of a library,
    which has no line here, is named in place of a file.
    """
    (result,) = sarif(report_of(verdict()))["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "src/my%20flows.py"
    assert place["region"] == {"startLine": 7}
    assert to_annotations(report_of(verdict())).startswith("::error file=src/my flows.py,line=7,")
    (result,) = sarif(report_of(verdict("zuko:NSF?features=3"), recognized={}))["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == (
        "zuko/NSF%3Ffeatures%3D3"
    )


def test_fingerprints_are_of_target_and_law() -> None:
    """A failure keeps its fingerprint when numbers, words and lines change, and no other has it."""
    first = report_of(verdict(why="a"), verdict(law="a/b"), verdict("other.py:make"))
    moved = {"flows.py:make": Recognized("bijection", path="elsewhere.py", line=90)}
    second = report_of(replace(verdict(why="b"), evidence=Evidence(2.0, 1.0)), recognized=moved)
    prints = [one["partialFingerprints"][FINGERPRINT] for one in sarif(first)["results"]]
    assert len(set(prints)) == 3
    (again,) = sarif(second)["results"]
    assert again["partialFingerprints"][FINGERPRINT] == prints[0]


def test_rules_are_laws_with_help() -> None:
    """Each law of the report is a rule with its statement in words, and results index it."""
    run = sarif(report_of(verdict(law="advice/shape", status=Status.ADVICE), verdict()))
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(STATEMENTS)
    assert rules[0]["shortDescription"]["text"] == "The log-det is log|det J|."
    assert f"flowref explain {LAW}" in rules[0]["help"]["text"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    assert {one["ruleId"]: one["level"] for one in run["results"]} == {
        LAW: "error",
        "advice/shape": "note",
    }


def test_the_schema_refuses_what_is_no_sarif() -> None:
    """The schema beside this file refuses unknown fields, lines before the first, and files from
    the root of the machine.
    """
    for path, value in (
        (("level",), "fatal"),
        (("colour",), "red"),
        (("locations", 0, "physicalLocation", "region", "startLine"), 0),
        (("locations", 0, "physicalLocation", "artifactLocation", "uri"), "/etc/passwd"),
    ):
        log = json.loads(to_sarif(report_of(verdict())))
        place = log["runs"][0]["results"][0]
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(log, SCHEMA)


texts = st.text(max_size=12) | st.just(NASTY)


@given(target=texts, why=texts, status=st.sampled_from(Status))
@settings(max_examples=40)
def test_nothing_from_a_target_steers_a_format(target: str, why: str, status: Status) -> None:
    """Whatever a target is called and says: XML parses, SARIF conforms, a mark is one line each,
    the headings of the summary hold no foreign HTML, and events are one object a line.
    """
    report = report_of(
        verdict(f"t{target}", status=status, why=why), problems=(Problem(target, why),)
    )
    assert junit(report).attrib["tests"] == str(1 + (status is not Status.NOT_APPLICABLE))
    sarif(report)
    json.loads(to_badge(report))
    failing = bool(report.new_failures)
    lines = to_annotations(report).splitlines()
    assert [line[:7] for line in lines] == ["::error"] * (1 + failing)
    folded = [line for line in to_summary(report).split("\n") if line.startswith("<details>")]
    assert len(folded) == failing
    assert "<script" not in "".join(folded)
    for text in (events.pair(report.verdicts[0]), events.finished(report)):
        assert text.count("\n") == 1
        json.loads(text)


def test_a_badge_is_green_only_where_something_held() -> None:
    """Green needs a law that holds and nothing new; an audit that was interrupted is not green."""
    holds = verdict(status=Status.HOLDS)
    colors = {
        "brightgreen": report_of(holds),
        "red": report_of(holds, verdict("b.py:b")),
        "orange": report_of(holds, verdict("b.py:b", status=Status.CRASHED)),
        "lightgrey": report_of(verdict(status=Status.INCONCLUSIVE)),
    }
    for color, report in colors.items():
        assert json.loads(to_badge(report))["color"] == color
    assert json.loads(to_badge(report_of(holds, complete=False)))["color"] == "lightgrey"


def test_a_summary_fits() -> None:
    """Of very many targets those that fail are listed, what finds no room is counted, and GitHub's
    limit is kept.
    """
    many = [verdict(f"f.py:m{n}", why="long " * 200) for n in range(1200)]
    text = to_summary(report_of(*many))
    assert len(text.encode()) < ROOM + 1000
    assert text.count("<details>") == text.count("</details>") < 1200
    assert f"and {1200 - ROWS} more targets, {1200 - ROWS} of them failing." in text
    left = 1200 - text.count("<details>")
    assert f"{left} more failures are in the report" in text


@pytest.mark.parametrize("status", OUTCOMES)
def test_concise_lines_and_issues_of_gitlab_are_of_what_fails(status: Status) -> None:
    """A line for each new failure, with file and line; GitLab's issues hold advice besides."""
    report = report_of(verdict(status=status))
    lines = to_concise(report).splitlines()
    issues = json.loads(to_gitlab(report))
    assert len(lines) == (status in FAILING)
    assert all(line.startswith(f"src/my flows.py:7: {LAW}: ") for line in lines)
    assert len(issues) == (status in (*FAILING, Status.ADVICE))
    for issue in issues:
        assert issue["severity"] == ("info" if status is Status.ADVICE else "critical")
        assert issue["location"] == {"path": "src/my flows.py", "lines": {"begin": 7}}


def test_concise_lines_and_issues_of_gitlab_bear_anything() -> None:
    """Whatever a target says, a failure is one line, and an issue has all that GitLab requires; no two
    have one fingerprint, and known failures are in neither.
    """
    known = KnownFailure("b.py:make", LAW, Standing.KNOWN, "accepted")
    bad = verdict(NASTY, status=Status.ERROR, why=NASTY)
    report = report_of(
        bad,
        verdict(),
        verdict("b.py:make"),
        problems=(Problem("c.py:make", NASTY),),
        known=(known,),
    )
    lines = to_concise(report).splitlines()
    assert len(lines) == 3 and all(line.isprintable() for line in lines)
    issues = json.loads(to_gitlab(report))
    assert [issue["severity"] for issue in issues] == ["blocker", "critical", "critical"]
    assert len({issue["fingerprint"] for issue in issues}) == 3
    for issue in issues:
        assert set(issue) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert issue["description"].isprintable()


SIZED = replace(verdict(), size=Size(0.5, 0.75, 48, 3))
# Violations, and how grave each is to GitHub and SARIF, to GitLab and to JUnit.
GRAVITY = [
    (SIZED, "error", "critical", "failure"),
    (replace(SIZED, law="effects/process[output]", size=None), "error", "major", "failure"),
    (replace(SIZED, minor=True), "note", "minor", "skipped"),
]


@pytest.mark.parametrize(("found", "level", "gitlab", "outcome"), GRAVITY)
def test_formats_say_how_grave_a_violation_is(
    found: Verdict, level: str, gitlab: str, outcome: str
) -> None:
    """What it makes wrong and its size in nats are in every format; a minor violation fails in none."""
    report = report_of(found)
    (result,) = sarif(report)["results"]
    assert result["level"] == level
    said = result["properties"]
    assert said["severity"] == kind(found.law) and said["minor"] is found.minor
    size = {} if found.size is None else {"nats": 0.5, "largestNats": 0.75}
    assert {name: said[name] for name in said if "ats" in name and name != "status"} == size
    (issue,) = json.loads(to_gitlab(report))
    assert issue["severity"] == gitlab and severity(found) in issue["description"]
    word = {"error": "error", "note": "notice"}[level]
    marks = to_annotations(report)
    assert marks.startswith(f"::{word} ") and severity(found) in marks
    (case,) = junit(report).iter("testcase")
    (mark,) = case
    assert mark.tag == outcome and severity(found) in str(mark.text)
    assert ("minor: " in to_concise(report)) is found.minor
