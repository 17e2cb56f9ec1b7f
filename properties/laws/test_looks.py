"""Looks at draws: fresh ones every time, and fewer where more of them take too long."""

from __future__ import annotations

import pytest

from flowref.laws.common.statistics import Finding, Look, two_stage
from flowref.model.budget import BudgetExceeded

COUNTS = (1600, 6400)


def looked(most: int, excess: float) -> list[int]:
    """How many draws each look makes, where no more than so many are affordable."""
    made: list[int] = []

    def statistic(look: Look) -> Finding:
        if look.count > most:
            raise BudgetExceeded("too many")
        made.append(look.count)
        return Finding(excess)

    two_stage(statistic, COUNTS, 0)
    return made


@pytest.mark.parametrize(
    ("most", "excess", "made"),
    [
        (10_000, 0.5, [1600]),
        (10_000, 2.0, [1600, 6400]),
        (400, 0.5, [400]),
        (1600, 2.0, [1600]),
        (100, 0.5, [100]),
    ],
)
def test_as_many_are_drawn_as_there_is_time_for(most: int, excess: float, made: list[int]) -> None:
    """A quarter, or a sixteenth; a second look that is not affordable is no look, and accuses nobody."""
    if made[-1] != COUNTS[1] and excess > 1:
        with pytest.raises(BudgetExceeded):
            looked(most, excess)
        return
    assert looked(most, excess) == made


def test_where_a_sixteenth_takes_too_long_that_is_said() -> None:
    """What cannot be drawn is not judged."""
    with pytest.raises(BudgetExceeded):
        looked(50, 0.5)
