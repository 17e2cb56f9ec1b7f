"""Where nothing tells whether a support ends, a base that forgets some of the latents is seen all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowref import checking, registry
from flowref.checking import Settings
from flowref.model import Status

FORGETTING = Path(__file__).with_name("forgetting.py")


@pytest.mark.parametrize(
    ("counted", "status"),
    [(6, Status.HOLDS), (3, Status.VIOLATED), (4, Status.VIOLATED), (0, Status.INCONCLUSIVE)],
)
def test_a_base_that_falls_along_some_latents_falls_along_all(counted: int, status: Status) -> None:
    """What is flat along all of them may be uniform on a box; along some, a level was forgotten."""
    target = registry.parse_target(f"{FORGETTING}:Levels?counted={counted}")
    assert checking.check(target, "density/tails", Settings("quick")).status is status


def test_angles_beside_numbers_forget_nothing() -> None:
    """A density that repeats along a coordinate is one of its period."""
    target = registry.parse_target(f"{FORGETTING}:Torsions")
    assert checking.check(target, "density/tails", Settings("quick")).status is Status.INCONCLUSIVE
