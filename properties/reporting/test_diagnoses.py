"""A diagnosis is told in every format, as text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flowref.model import Condition, Counterexample, Evidence, Status, Verdict
from flowref.reporting.formats.events import pair
from flowref.reporting.verdict_json import verdict_from_json, verdict_to_json
from flowref.reporting.words import failure

BUG = "the log-det of forward is half of the right one (46 points tried)"
VIOLATED = Verdict(
    "zuko:NSF",
    "map/log-det",
    Status.VIOLATED,
    evidence=Evidence(1.0, 1e-9),
    counterexample=Counterexample([[0.5]], None, 1, Condition()),
    diagnosis=BUG,
)


def test_the_screen_tells_it() -> None:
    """A failure on screen has its diagnosis on a line of its own, without where it was tried."""
    told = f"Diagnosis: {BUG.partition(' (')[0]}."
    assert any(line.strip() == told for line in failure(VIOLATED))


def test_events_tell_it() -> None:
    """So has the event of its pair."""
    assert BUG in pair(VIOLATED)


@pytest.mark.parametrize("verdict", [VIOLATED, replace(VIOLATED, diagnosis="")])
def test_reports_keep_it(verdict: Verdict) -> None:
    """A diagnosis comes back from JSON, and so does its absence."""
    assert verdict_from_json(verdict_to_json(verdict)) == verdict
