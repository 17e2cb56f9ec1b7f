"""Findings: the tool that joins an audit to its causes accepts neither a violation without a cause
nor a cause without a violation.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import findings
import sizes
from causes import read
from findings_page import WIDTH, _paragraph
from flowref.model import ReportError, Size, Status, Verdict
from flowref.reporting import Environment, LawNote, Problem, Report

ENTRY = """
[[finding]]
id = "lib-wrong"
title = "It is wrong"
class = "confirmed"
library = "lib"
targets = ["lib:Wrong[a=1]*"]
laws = ["family/one"]
cause = "A sign."
documentation = "None."
script = "wrong.py"
"""
WRONG = Verdict("lib:Wrong[a=1]?b=2", "family/one", Status.VIOLATED)
AUDIT = Report(
    Environment("0", "3.11", "here"),
    (LawNote("family/one", 1, "It holds.", "claim", "rounding"),),
    (WRONG.target, "lib:Right"),
    (WRONG, Verdict("lib:Right", "family/one", Status.HOLDS)),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one finding and its script."""
    (tmp_path / "findings.toml").write_text(ENTRY)
    (tmp_path / "wrong.py").write_text("")
    return tmp_path


def joined(folder: Path, report: Report, *options: str) -> int:
    """The exit code for a report."""
    report.save(folder / "audit.json")
    return findings.main([str(folder / "audit.json"), str(folder / "findings.toml"), *options])


@pytest.mark.parametrize("report", [AUDIT, AUDIT.brief()], ids=["full", "brief"])
def test_an_audit_that_is_explained_passes(folder: Path, report: Report) -> None:
    """Where violations and causes agree, the tool exits 0, and the page tells of both."""
    assert joined(folder, report, "--page", str(folder / "page.md")) == 0
    page = (folder / "page.md").read_text()
    for part in ("It is wrong", "`lib:Wrong[a=1]?b=2`", "2 pairs: 1 holds, 1 violated", "wrong.py"):
        assert part in page


WHOLE = {
    "another target": replace(WRONG, target="lib:Wrong[a=2]"),
    "another law": replace(WRONG, law="family/two"),
}


@pytest.mark.parametrize("verdict", WHOLE.values(), ids=WHOLE)
def test_a_violation_without_a_cause_fails(
    folder: Path, verdict: Verdict, capsys: pytest.CaptureFixture[str]
) -> None:
    """A violation that no finding names exits 1, in an audit of a part as well, and is listed."""
    report = replace(AUDIT, verdicts=(*AUDIT.verdicts, verdict))
    assert joined(folder, report, "--partial") == 1
    assert f"{verdict.target} violates {verdict.law}" in capsys.readouterr().out


def test_a_cause_without_a_violation_fails(folder: Path) -> None:
    """A finding that explains nothing exits 1, unless only a part was audited."""
    report = replace(AUDIT, verdicts=AUDIT.verdicts[1:])
    assert joined(folder, report) == 1
    assert joined(folder, report, "--partial") == 0


def test_a_cause_in_published_models_is_none_of_a_library(folder: Path) -> None:
    """An audit of a library says nothing of its models of published size, one of these does."""
    text = ENTRY.replace("lib:Wrong[a=1]*", "lib:published.wrong").replace("lib-wrong", "lib-large")
    path = folder / "findings.toml"
    path.write_text(ENTRY + text)
    assert joined(folder, AUDIT) == 0
    large = Verdict("lib:published.right", "family/one", Status.HOLDS)
    both = replace(AUDIT, targets=(*AUDIT.targets, large.target), verdicts=(*AUDIT.verdicts, large))
    assert joined(folder, both) == 1


@pytest.mark.parametrize(
    "report",
    [
        replace(AUDIT, complete=False),
        replace(AUDIT, problems=(Problem("lib:Gone", "it left"),)),
        replace(AUDIT, verdicts=(WRONG, Verdict("lib:Right", "family/one", Status.CRASHED))),
    ],
    ids=["interrupted", "unloadable", "crashed"],
)
def test_an_audit_that_is_not_whole_fails(folder: Path, report: Report) -> None:
    """An audit that was interrupted, lost a target or crashed exits 1, whatever it explains."""
    assert joined(folder, report, "--partial") == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('cause = "A sign."', "", "lacks cause"),
        ('"confirmed"', '"certain"', "expected confirmed, declared convention, undecided"),
        ('script = "wrong.py"', "", "names no script"),
        ('script = "wrong.py"', 'script = "gone.py"', "not beside"),
        ("[[finding]]", "[[finding]", "cannot be read as findings"),
    ],
)
def test_an_incomplete_finding_is_refused(
    folder: Path, old: str, new: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An entry that lacks a field, or a confirmed one without its script, exits 2 in a sentence."""
    path = folder / "findings.toml"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ReportError, match=message):
        read(path)
    assert joined(folder, AUDIT) == 2
    assert message in capsys.readouterr().err


def test_wrapped_prose_is_no_list() -> None:
    """However prose falls into lines, none begins like a list, and no line is too long."""
    for letters in range(60, 120):
        *lines, last = _paragraph("x" * letters + " a - b + c 1. d # e > f" * 9)
        assert last == ""
        assert not any(line.startswith(("-", "+", "1.", "#", ">")) for line in lines)
        assert all(len(line) <= WIDTH for line in lines[1:])


def test_violations_that_are_measured_again_take_the_place_of_themselves() -> None:
    """The pairs asked for are those of targets without a size; what holds by now keeps its verdict, and is
    named.
    """
    other = replace(WRONG, target="lib:Other", size=Size(0.5, 0.5, 48, 3))
    report = replace(AUDIT, verdicts=(*AUDIT.verdicts, other))
    assert sizes.pairs(report, everything=False) == {WRONG.target: [WRONG.law]}
    sized = replace(WRONG, size=Size(2.0, 2.0, 48, 3))
    again = replace(AUDIT, verdicts=(sized, replace(other, status=Status.HOLDS, size=None)))
    renewed, lost = sizes.renewed(report, again)
    assert renewed.verdicts == (sized, AUDIT.verdicts[1], other)
    assert lost == [other]
    assert sizes.pairs(renewed, everything=False) == {}
    assert list(sizes.pairs(renewed, everything=True)) == [WRONG.target, "lib:Other"]
