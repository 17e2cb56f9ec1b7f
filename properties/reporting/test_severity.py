"""How grave violations are: what they make wrong, and in which order they are listed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flowref import registry
from flowref.model import Evidence, Size, Status, Verdict, named_by
from flowref.reporting.causes import by_size, explained
from flowref.reporting.contents import Environment
from flowref.reporting.outcomes import tally
from flowref.reporting.report import Report
from flowref.reporting.severity import KINDS, TABLE, kind, severity

IDS = [law.id for law in registry.laws() if not law.is_case]
GLOBS = [(name, glob) for name, globs in TABLE for glob in globs.split()]
LARGE = Verdict("t", "map/log-det", Status.VIOLATED, size=Size(0.5, 1.0, 48, 3))
MINOR = Verdict("t", "map/inverse[latents]", Status.VIOLATED, minor=True)
ENVIRONMENT = Environment("0", "3", "", (), "", "quick", 0, "", 0.0)


def test_every_law_has_a_row() -> None:
    """What the violation of a law makes wrong is decided by the table, not by default."""
    assert [law for law in IDS if not any(named_by(glob, law) for _, glob in GLOBS)] == []
    assert {kind(law) for law in IDS} == set(KINDS)


def test_every_row_decides_about_a_law() -> None:
    """No glob of the table is idle."""
    idle = [
        (name, glob)
        for name, glob in GLOBS
        if not any(named_by(glob, law) and kind(law) == name for law in IDS)
    ]
    assert idle == []


def test_the_largest_error_comes_first() -> None:
    """Nats first, then what is wrong, then margins; minor ones last."""
    small = replace(LARGE, law="density/base-constant[latents]", size=Size(0.1, 0.1, 48, 3))
    state = Verdict("t", "same/saved[reload]", Status.VIOLATED, evidence=Evidence(9.0, 1.0))
    samples = Verdict("t", "sampling/follows-density", Status.VIOLATED, evidence=Evidence(2.0, 1.0))
    assert by_size([MINOR, state, samples, small, LARGE]) == [LARGE, small, samples, state, MINOR]


def test_a_minor_violation_is_no_failure() -> None:
    """It is counted under its own word, raises nothing, and leaves the exit code alone."""
    report = Report(ENVIRONMENT, targets=("t",), verdicts=(MINOR,))
    assert report.exit_code == 0
    assert report.minor == (MINOR,)
    assert tally(report.verdicts) == "1 minor"
    report.raise_for_violations()
    assert severity(MINOR) == "minor, wrong samples"


@pytest.mark.parametrize("minor", [True, False])
def test_a_minor_violation_explains_minor_ones_alone(minor: bool) -> None:
    """A log-det that is off by 1e-12 is no cause of an integral of 3."""
    cause = replace(LARGE, minor=minor)
    symptom = Verdict("t", "density/mass", Status.VIOLATED)
    assert bool(explained([cause, symptom])) is not minor


def test_size_and_minor_survive_json() -> None:
    """What is written is read again, exactly."""
    report = Report(ENVIRONMENT, targets=("t",), verdicts=(LARGE, MINOR))
    assert Report.from_json(report.to_json()) == report
    assert Report.from_json(report.to_json()).verdicts == report.verdicts
