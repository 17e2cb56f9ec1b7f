"""Objects of bijx: their event is found, and what runs through them is told from what they add."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("bijx", reason="the bijections derive from those of bijx")

from flowref import checking, registry
from flowref.loading import recipe_of
from flowref.model import Status, Target

HERE = Path(__file__).parent


def target(spec: str) -> Target:
    """A target of the file of bijections."""
    return registry.parse_target(f"{os.path.relpath(HERE / 'threaded.py')}:{spec}")


def status(spec: str, law: str) -> Status:
    """What a law says of it."""
    settings = checking.Settings("quick")
    return checking.pair_verdict(
        target(spec), registry.find_law(law), settings, written=False
    ).status


@pytest.mark.parametrize(
    ("bug", "law"),
    [
        ("overwritten", "map/log-det"),
        ("twice", "map/log-det"),
        ("back overwritten", "map/log-det[inverse]"),
    ],
)
def test_a_log_density_that_is_not_kept_is_seen(bug: str, law: str) -> None:
    """What overwrites or scales the log-density that it is given is accused, in either direction, and
    what adds to it is not.
    """
    assert status(f"scaled?event=3&bug={bug}", law) is Status.VIOLATED
    assert status("scaled?event=3", law) is Status.HOLDS


@pytest.mark.parametrize(
    "law", ["map/log-det", "map/singular-jacobian", "map/log-det[antisymmetry]"]
)
def test_volume_that_is_kept_is_zero(law: str) -> None:
    """What runs through leaves an exact zero of what keeps volume."""
    assert status("shifted?event=3", law) is Status.HOLDS


@pytest.mark.parametrize(
    ("name", "event", "said"),
    [
        ("scaled", (3,), ""),
        ("shifted", (3,), ""),
        ("transformed", (3,), ""),
        ("halves", (2,), ""),
        ("elementwise", (4,), "inferred; ?event= sets another"),
    ],
)
def test_an_event_is_found(name: str, event: tuple[int, ...], said: str) -> None:
    """The event is that of the prior, or one that calls show: no number is stretched over its entries."""
    recipe = recipe_of(target(name))
    assert recipe.facts.event_shape == event
    assert recipe.recognized.event_source == said


@pytest.mark.parametrize("law", ["map/log-det", "map/log-det[inverse]"])
def test_what_is_right_at_its_event_is_not_accused(law: str) -> None:
    """A coupling that would be wrong at another event than its own holds, and its bug is seen."""
    assert status("halves", law) is Status.HOLDS
    assert status("halves?bug=true", "map/log-det") is Status.VIOLATED
