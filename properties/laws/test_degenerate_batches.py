"""Batches whose spread is zero are made of points of any shape."""

from __future__ import annotations

import numpy as np
import pytest

from flowref.checking import Settings, check
from flowref.laws.conduct.saving import degenerate
from flowref.model import Status
from flowref.registry import parse_target


@pytest.mark.parametrize(
    ("event_shape", "names"),
    [
        ((), {"of one row", "of equal rows"}),
        ((3,), {"of one row", "of equal rows", "with a constant feature"}),
        ((2, 4, 4), {"of one row", "of equal rows", "with a constant feature"}),
    ],
)
def test_a_feature_is_constant_where_there_are_several(
    event_shape: tuple[int, ...], names: set[str]
) -> None:
    """Numbers have one row and equal rows; in each batch some coordinate has no spread."""
    points = np.random.default_rng(0).standard_normal((16, *event_shape))
    batches = degenerate(points)
    assert set(batches) == names
    spread = {name: np.ptp(batch, axis=0) for name, batch in batches.items()}
    assert [name for name in names if not (spread[name] == 0).any()] == []
    assert {len(batch) for batch in batches.values()} == {1, 16}


def test_a_density_of_numbers_is_judged() -> None:
    """It has no further axis to be constant along."""
    verdict = check(
        parse_target("reference:Exponential"), "state/degenerate-batch", Settings("quick")
    )
    assert verdict.status is Status.HOLDS, verdict.reason
