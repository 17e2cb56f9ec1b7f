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


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("Sampled", Status.HOLDS),
        ("Sampled?counted=5", Status.VIOLATED),
        ("Images", Status.HOLDS),
        ("Images?counted=96", Status.VIOLATED),
        ("Images?counted=180", Status.VIOLATED),
    ],
)
def test_rays_need_not_find_them(name: str, status: Status) -> None:
    """Few rays are of the forgotten latents alone, however wide the density is there."""
    target = registry.parse_target(f"{FORGETTING}:{name}")
    assert checking.check(target, "density/tails", Settings("quick")).status is status


def test_a_base_that_is_uniform_along_some_forgets_nothing() -> None:
    """Its samples gather at ends that nobody declared."""
    target = registry.parse_target(f"{FORGETTING}:Uniform")
    verdict = checking.check(target, "density/tails", Settings("quick"))
    assert verdict.status is not Status.VIOLATED


def test_angles_beside_numbers_forget_nothing() -> None:
    """A density that repeats along a coordinate is one of its period."""
    target = registry.parse_target(f"{FORGETTING}:Torsions")
    assert checking.check(target, "density/tails", Settings("quick")).status is Status.INCONCLUSIVE
