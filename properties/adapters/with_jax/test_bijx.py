"""Objects of bijx: what runs through them is told from what they add."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("bijx", reason="the bijections derive from those of bijx")

from flowref import checking, registry
from flowref.model import Status

HERE = Path(__file__).parent


def status(spec: str, law: str) -> Status:
    """What a law says of a target of the file of bijections."""
    target = registry.parse_target(f"{os.path.relpath(HERE / 'threaded.py')}:{spec}")
    settings = checking.Settings("quick")
    return checking.check(target, registry.find_law(law), settings, written=False).status


@pytest.mark.parametrize(
    ("slip", "law"),
    [
        ("overwritten", "bijection/log-det"),
        ("twice", "bijection/log-det"),
        ("back overwritten", "bijection/inverse-log-det"),
    ],
)
def test_a_log_density_that_is_not_kept_is_seen(slip: str, law: str) -> None:
    """What overwrites or scales the log-density that it is given is accused, in either direction, and
    what adds to it is not.
    """
    assert status(f"scaled?event=3&slip={slip}", law) is Status.VIOLATED
    assert status("scaled?event=3", law) is Status.HOLDS


@pytest.mark.parametrize(
    "law", ["bijection/log-det", "bijection/honest-zero", "bijection/log-det-antisymmetry"]
)
def test_volume_that_is_kept_is_zero(law: str) -> None:
    """What runs through leaves an exact zero of what keeps volume."""
    assert status("shifted?event=3", law) is Status.HOLDS
