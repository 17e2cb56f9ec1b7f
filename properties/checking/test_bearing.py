"""The weights that a heavy object is measured with first are moved as far as it bears, and a wrong
inverse is no reason to leave them as they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from checking.fakes import TARGET, Shelf
from flowref import loading, registry
from flowref.checking.largest_step import bearable
from flowref.checking.plan import BARELY, MOVED, Plan
from flowref.checking.search import AS_GIVEN, Search, _searched
from flowref.checking.settings import Settings
from flowref.model import Array, Condition, Facts, Mapped, Status, Subject, Target
from flowref.model.budget import Budget, limited_budget

SCALES = (0.3, 0.1)


def grown(depth: int, wrong: bool) -> Shelf:
    """A map of so many layers that is the identity as given, and multiplies by 1 + scale in each."""

    def build(condition: Condition) -> Subject:
        factor = (1.0 + condition.scale) ** depth

        def forward(x: Array, context: Array | None = None) -> Mapped:
            return Mapped(x * factor, np.full(len(x), 4 * np.log(factor)))

        def inverse(z: Array, context: Array | None = None) -> Mapped:
            way = z * factor if wrong else z / factor
            return Mapped(way, np.full(len(z), -4 * np.log(factor)))

        calls: dict[str, Any] = {"forward": forward, "inverse": inverse}
        return Subject(name="grown", facts=Facts((4,)), calls=calls)

    shelf = Shelf()
    shelf.put(build)
    return shelf


@pytest.mark.parametrize(
    ("depth", "wrong", "expected"),
    [(4, False, 0.3), (100, False, 0.1), (1000, False, 0.0), (4, True, 0.3), (100, True, 0.1)],
)
def test_weights_are_moved_as_far_as_images_stay_ordinary(
    depth: int, wrong: bool, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether what is the identity as given comes back or not."""
    shelf = grown(depth, wrong)
    monkeypatch.setattr(loading, "load", shelf.load)
    monkeypatch.setattr(loading, "recipe_of", lambda target: object())
    assert bearable(TARGET, SCALES) == expected


@pytest.mark.parametrize(
    ("bears", "tried", "expected"),
    [(0.0, [0.3, 0.01], 0.0), (0.03, [0.3, 0.01, 0.1, 0.03], 0.03)],
)
def test_an_image_without_numbers_is_asked_at_the_smallest_step_next(
    bears: float, tried: list[float], expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tells no growth: what has none even there is built twice, and not for each step."""
    shelf = Shelf()

    def build(condition: Condition) -> Subject:
        worth = 1.0 if condition.scale <= bears else np.nan

        def forward(x: Array, context: Array | None = None) -> Mapped:
            return Mapped(x * worth, np.zeros(len(x)))

        calls: dict[str, Any] = {"forward": forward}
        return Subject(name="lost", facts=Facts((4,)), calls=calls)

    shelf.put(build)
    monkeypatch.setattr(loading, "load", shelf.load)
    monkeypatch.setattr(loading, "recipe_of", lambda target: shelf)
    assert bearable(TARGET, MOVED) == expected
    assert [condition.scale for condition in shelf.loaded] == tried


@pytest.mark.parametrize(("depth", "tried"), [(100, [0.3, 0.1]), (1000, [0.3, 0.03])])
def test_a_perturbation_that_enlarges_beyond_hope_is_not_tried(
    depth: int, tried: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each costs an object and its calls; another history is not moved farther than the usual one."""
    shelf, recipe = grown(depth, False), object()
    monkeypatch.setattr(loading, "load", shelf.load)
    monkeypatch.setattr(loading, "recipe_of", lambda target: recipe)
    first = bearable(TARGET, MOVED)
    seen = [condition.scale for condition in shelf.loaded]
    assert seen[: len(tried)] == tried and first == seen[-1]
    shelf.loaded.clear()
    assert bearable(TARGET, MOVED, "fresh") == first
    assert [condition.scale for condition in shelf.loaded] == [first]


@pytest.mark.parametrize(
    ("plan", "asked"), [(Plan(rows=1, one_call_too_long=True), BARELY), (Plan(rows=1), MOVED)]
)
def test_what_was_just_built_is_moved_first(
    plan: Plan, asked: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Maps of many steps barely: they may start as the identity, too. Weights of a user's stay."""
    seen = []

    def first_of(target: Target, scales: tuple[float, ...], history: str) -> float:
        seen.append(scales)
        return scales[0]

    monkeypatch.setattr("flowref.checking.plan.bearable", first_of)
    assert plan.first(TARGET) == asked[0]
    assert plan.first(Target("user", "stand-in", (("weights", "run.pt"),))) == 0.0
    assert Plan().first(TARGET) is None
    assert seen == [asked]


@pytest.mark.parametrize(("rows", "told"), [(1, True), (None, False)])
def test_that_weights_were_never_moved_is_told(
    rows: int | None, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a heavy object that bears no moving: what was built may be the identity."""
    target = registry.parse_target("nflows:AffineCouplingTransform")
    monkeypatch.setattr("flowref.checking.plan.bearable", lambda *_: 0.0)
    law = replace(registry.find_law("map/inverse[latents]"), effort=1, scanned=False)
    search = Search(target, law, Settings(), Plan(rows=rows))
    with limited_budget(Budget()):
        verdict = _searched(search, loading.load(target), str(target))
    assert verdict.status is Status.HOLDS
    assert (AS_GIVEN in verdict.reason) is told
