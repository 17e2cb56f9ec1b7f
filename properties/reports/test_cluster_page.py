"""The page on clusters tells what was measured, and when that is not worth much."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import cluster
from cluster_page.measuring import CLUSTER, PAIRS, POOL, REAL, WORKERS, Point
from cluster_page.standin import check, milliseconds, spec
from flowref.model import Status, Target, Verdict

IDLE = {"cores": 2, "date": "2026-01-01", "load": 0.1, "python": "3.12"}
POINTS = [
    Point(pairs, how, workers, 1000 * workers, 10.0 if how == POOL else 20.0, 3.0)
    for pairs in (*map(str, PAIRS), REAL)
    for how in (POOL, CLUSTER)
    for workers in WORKERS
]


def test_the_page_tells_the_numbers() -> None:
    """Throughput in the table, gains and overhead in words, all from the points."""
    text = cluster.page(POINTS, IDLE)
    assert "| 50 ms | pool | 100 | 200 | 400 | 3.0 s |" in text
    assert "| real, of flows | cluster | 50 | 100 | 200 | 3.0 s |" in text
    assert "two workers do 2.0 times what one does, and 4 4.0 times" in text
    assert "takes 20.0 ms on a cluster with one worker, 10.0 ms in the pool" in text
    assert "do 50 % of what two of the pool do" in text
    assert "busy**" not in text
    assert "**while other work kept the cores busy** (a load of 9.5)" in cluster.page(
        POINTS, {**IDLE, "load": 9.5}
    )
    slower = [replace(one, seconds=50.0) if one.how == CLUSTER else one for one in POINTS]
    assert cluster.page(slower, IDLE) != text


@pytest.mark.parametrize("cost", PAIRS)
def test_a_stand_in_takes_what_its_name_says(cost: int) -> None:
    """The name of a target tells its cost, and its verdict holds."""
    target = Target("user", spec(cost, 3))
    assert milliseconds(str(target)) == cost
    verdict = check(target, "a/law", None)
    assert isinstance(verdict, Verdict) and verdict.status is Status.HOLDS


def test_the_published_page_is_that_of_its_points() -> None:
    """reports/cluster.md is what the tool writes of the points beside it."""
    stored = json.loads((cluster.REPORTS / cluster.FOLDER / cluster.FILE).read_text())
    points = [Point(**row) for row in stored["points"]]
    page = Path(cluster.REPORTS / cluster.PAGE).read_text()
    assert page == cluster.page(points, stored["machine"])
