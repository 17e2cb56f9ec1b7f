"""A point that is repeated is excused by its own rounding, and by no other point's."""

from __future__ import annotations

import numpy as np
import pytest

from flowref import checking
from flowref.laws.conduct.inputs import at_first
from flowref.model import Mapped, Status
from flowref.registry import parse_target

SHIFTED = "flowref_zoo.specimens.styles.transform_shifted:transform_shifted"


@pytest.mark.parametrize("row", [0, 1, 4])
def test_what_differs_in_any_repetition_differs_in_the_first(row: int) -> None:
    """The largest difference is told of the first row, and of that row alone."""
    value, ladj = np.ones((5, 2)), np.zeros(5)
    other, others = value.copy(), ladj.copy()
    other[row, 1], others[row] = 3.0, np.nan
    first, second = at_first(Mapped(value, ladj), Mapped(other, others))
    assert second is not None
    assert np.array_equal(np.flatnonzero((second.value != first.value).any(1)), [0])
    assert np.isnan(np.asarray(second.ladj)).tolist() == [True, False, False, False, False]


def test_cancellation_near_a_root_is_no_matter_of_layout() -> None:
    """The repeated point is that at which the inverse cancels; its neighbors in the batch do not."""
    verdict = checking.pair_verdict(parse_target(SHIFTED), "same/manner[strides]")
    assert verdict.status is Status.HOLDS
