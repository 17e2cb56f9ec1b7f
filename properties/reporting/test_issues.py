"""A violation as the text of an issue."""

from __future__ import annotations

from flowref.model import Condition, Counterexample, Evidence, Status, Verdict
from flowref.reporting.contents import Environment
from flowref.reporting.issue import issue
from flowref.reporting.report import Report

VIOLATED = Verdict(
    "zuko:NSF",
    "map/log-det",
    Status.VIOLATED,
    evidence=Evidence(1.0, 1e-9),
    counterexample=Counterexample([[0.5]], None, 1, Condition()),
    diagnosis="the log-det of forward is half of the right one",
)


def sample() -> Report:
    """A report of that violation."""
    return Report(Environment("0.1.0", "3.12", "Linux"), (), (VIOLATED.target,), (VIOLATED,))


def test_the_program_stands_in_it_as_it_is() -> None:
    """A program keeps its lines and their indentation, in a fence that it cannot end."""
    program = 'if True:\n    print("```")\n'
    text = issue(sample(), VIOLATED, program)
    assert '~~~python\nif True:\n    print("```")\n~~~' in text


def test_without_a_program_the_commands_stand_in_it() -> None:
    """Where no program shows it, the line that measures it again does."""
    assert f"flowref replay {VIOLATED.id}" in issue(sample(), VIOLATED)


def test_the_diagnosis_stands_in_it() -> None:
    """What a maintainer should look for is told."""
    assert "Diagnosis: the log-det of forward is half" in issue(sample(), VIOLATED)
