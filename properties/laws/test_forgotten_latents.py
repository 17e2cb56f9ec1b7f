"""Where nothing tells whether a support ends, a base that forgets some of the latents is seen all the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flowref import checking, loading, registry
from flowref.checking import Settings
from flowref.laws.density.tails import forgotten
from flowref.model import Batch, CallCost, Cost, LinearCost, Status
from flowref.model.budget import SECOND, Budget, limited_budget

FORGETTING = Path(__file__).with_name("forgetting.py")


@pytest.mark.parametrize(
    ("counted", "status"),
    [(6, Status.HOLDS), (3, Status.VIOLATED), (4, Status.VIOLATED), (0, Status.INCONCLUSIVE)],
)
def test_a_base_that_falls_along_some_latents_falls_along_all(counted: int, status: Status) -> None:
    """What is flat along all of them may be uniform on a box; along some, a level was forgotten."""
    target = registry.parse_target(f"{FORGETTING}:Levels?counted={counted}")
    assert checking.pair_verdict(target, "density/mass[tails]", Settings("quick")).status is status


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
    assert checking.pair_verdict(target, "density/mass[tails]", Settings("quick")).status is status


def test_a_base_that_is_uniform_along_some_forgets_nothing() -> None:
    """Its samples gather at ends that nobody declared."""
    target = registry.parse_target(f"{FORGETTING}:Uniform")
    verdict = checking.pair_verdict(target, "density/mass[tails]", Settings("quick"))
    assert verdict.status is not Status.VIOLATED


def test_angles_beside_numbers_forget_nothing() -> None:
    """A density that repeats along a coordinate is one of its period."""
    target = registry.parse_target(f"{FORGETTING}:Torsions")
    assert (
        checking.pair_verdict(target, "density/mass[tails]", Settings("quick")).status
        is Status.INCONCLUSIVE
    )


def test_dear_calls_take_fewer_rows() -> None:
    """Where a row takes a second, halves are told in less than the minute that there is."""
    subject = loading.load(registry.parse_target(f"{FORGETTING}:Images?counted=96"))
    dear = CallCost(1, LinearCost(0.0, SECOND), LinearCost(0.0, 1.0), LinearCost(0.0, 1.0))
    cost = Cost(dict.fromkeys(("forward", "inverse", "log_prob"), dear))
    subject = replace(subject, facts=replace(subject.facts, cost=cost))
    back, rows = subject.calls["inverse"], []

    def counted(z: Any, context: Any = None) -> Any:
        rows.append(len(z))
        return back(z, context)

    x = np.random.default_rng(0).standard_normal((4, *subject.event_shape))
    with limited_budget(Budget(work=60 * SECOND)):
        found = [*forgotten(subject.with_call("inverse", counted), Batch(x, None, 0))]
    assert np.array_equal(found[0][1], np.arange(96, 192))
    # As many go there, back and into the log-density.
    assert 3 * sum(rows) < 60
