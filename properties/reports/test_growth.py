"""The page of how the cost of an audit grows: resumable, and drawn from what was measured alone."""

from __future__ import annotations

from pathlib import Path

import pytest

import growth
from flowref import registry
from flowref.checking import Settings
from flowref.model import Verdict
from growth_page import points
from growth_page.grid import AXES, FAMILIES, Point, grid
from growth_page.points import Result
from growth_page.rows import USUAL, VARIABLE, check


def result(point: Point) -> Result:
    """Of a point whose cost grows as the square of its value."""
    return Result(point.name, float(point.value**2), 2**30, 9, 10, 0, 0, True, "quick")


def test_the_whole_grid_goes_as_far_as_is_promised() -> None:
    """Features from 2 to 3,072, layers from 1 to 64, batch and width, of every family; every name
    once, and the short grid is a part of it.
    """
    whole = list(grid(short=False))
    names = [point.name for point in whole]
    assert len(set(names)) == len(names)
    assert set(grid(short=True)) < set(whole)
    assert {(point.family, point.axis) for point in whole} == {
        (family, axis) for family in FAMILIES for axis in AXES
    }
    ends = {axis: {point.value for point in whole if point.axis == axis} for axis in AXES}
    assert {min(ends["features"]), max(ends["features"])} == {2, 3072}
    assert {min(ends["layers"]), max(ends["layers"])} == {1, 64}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_point_names_a_flow_of_its_size(family: str) -> None:
    """Its spec is a target whose facts, or whose object, have so many features."""
    point = min(
        (one for one in grid(short=True) if (one.family, one.axis) == (family, "features")),
        key=lambda one: one.features,
    )
    target = registry.parse_target(point.spec)
    options = {name: int(value) for name, value in target.options}
    if family == "image":
        assert 3 * options["side"] ** 2 == point.features
    else:
        facts = registry.find_component(target).facts
        assert callable(facts)
        assert facts(**options).event_shape == (point.features,)


def test_points_are_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted run goes on after its last point; a budget of no time measures nothing; the
    page and a picture of each axis are made of what there is.
    """
    asked: list[str] = []

    def measured(point: Point, *limits: object) -> Result:
        asked.append(point.name)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return result(point)

    monkeypatch.setattr(points, "measured", measured)
    command = ["spline/layers/*", "--folder", str(tmp_path)]
    assert growth.main([*command, "--budget", "-1"]) == 0
    assert not asked
    with pytest.raises(KeyboardInterrupt):
        growth.main(command)
    assert growth.main(command) == 0
    assert asked == [f"spline/layers/{value}" for value in (1, 4, 16, 16, 64)]
    assert growth.main(command) == 0
    assert len(asked) == 5
    assert (tmp_path / "growth" / "layers.svg").stat().st_size > 1000
    text = (tmp_path / "growth.md").read_text(encoding="utf-8")
    assert "| spline | 64 | 4096 | 1,024 | 9 of 10 |  |" in text
    assert "spline 2.0." in text
    assert "## Features" not in text
    assert growth.main(["no/such/point"]) == 2


def test_an_audit_on_several_axes_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flow of which nothing grows is a point of each axis."""
    asked: list[str] = []

    def measured(point: Point, *limits: object) -> Result:
        asked.append(point.name)
        return result(point)

    monkeypatch.setattr(points, "measured", measured)
    shared = ("features/32", "layers/4", "width/64", "batch/16")
    command = [*(f"coupling/{name}" for name in shared), "--folder", str(tmp_path)]
    assert growth.main(command) == 0
    assert len(asked) == 1
    assert set(points.read(tmp_path / "growth" / "points.jsonl")) == set(command[:4])
    assert growth.main([*command, "--fresh"]) == 0
    assert len(asked) == 2


def test_rows_of_a_batch_are_multiplied(monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit of a larger batch judges so many times as many points."""
    target = registry.parse_target("nflows:AffineCouplingTransform")

    def judged(rows: int) -> int:
        monkeypatch.setenv(VARIABLE, str(rows))
        verdict = check(target, "map/inverse", Settings("quick"))
        assert isinstance(verdict, Verdict)
        counts = verdict.counts
        return counts.held + counts.undecided + counts.dropped

    assert judged(8 * USUAL) >= 4 * judged(USUAL)
