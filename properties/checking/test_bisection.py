"""A batch that raises is cut down to its raising rows: the others are still measured."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checking.standins import Standin
from flowref.checking.bisection import BISECTIONS, Split, bisect
from flowref.model import Array, Batch, Undecidable, Unsupported


def refusing(bad: set[int]) -> Standin:
    """A law that raises wherever a point of a set of numbers is in the batch."""

    def residual(batch: Batch) -> Array:
        seen = sorted(bad & {int(number) for number in batch.x[:, 0]})
        if seen:
            raise ValueError(f"refused: {seen}")
        return np.zeros(len(batch.x))

    return Standin(residual, features=1)


def split(standin: Standin, rows: int) -> Split:
    """A batch of numbered points, cut down."""
    batch = Batch(np.arange(rows, dtype=float)[:, None], None, 0)
    return bisect(standin.law, standin.subject, batch, ValueError("all at once"))


@given(st.integers(1, 48), st.data())
def test_only_raising_rows_are_lost_where_there_are_few(rows: int, data: st.DataObject) -> None:
    """One raising row of any batch that is drawn is named alone, and every other row is measured."""
    bad = data.draw(st.integers(0, rows - 1))
    standin = refusing({bad})
    measurable, raising, error = split(standin, rows)
    assert raising.tolist() == [bad]
    assert measurable.tolist() == [row for row in range(rows) if row != bad]
    assert str(error) == ("all at once" if rows == 1 else f"refused: [{bad}]")


@given(st.integers(1, 48), st.data())
def test_no_row_that_raises_counts_as_measurable(rows: int, data: st.DataObject) -> None:
    """However many rows raise, each is among those that are called raising, every row is in one
    set, and the rows that are called measurable can be measured together.
    """
    bad = data.draw(st.sets(st.integers(0, rows - 1), min_size=1))
    standin = refusing(bad)
    measurable, raising, _ = split(standin, rows)
    assert bad <= set(raising.tolist())
    assert sorted([*measurable.tolist(), *raising.tolist()]) == list(range(rows))
    standin.measurement(measurable)


@given(st.integers(1, 500), st.data())
def test_the_effort_is_bounded(rows: int, data: st.DataObject) -> None:
    """Large batches in which much raises are not measured forever."""
    standin = refusing(data.draw(st.sets(st.integers(0, rows - 1), min_size=1)))
    split(standin, rows)
    assert len(standin.measured) <= BISECTIONS


@pytest.mark.parametrize("rows", [2, 20])
def test_a_batch_that_raises_as_a_whole_only_loses_nothing(rows: int) -> None:
    """Where every part of it can be measured, no row raises."""
    standin = Standin(lambda batch: batch.x[:, 0], features=1)
    measurable, raising, error = split(standin, rows)
    assert raising.tolist() == []
    assert len(measurable) == rows
    assert str(error) == "all at once"


@pytest.mark.parametrize("said", [Unsupported, Undecidable])
def test_a_law_that_has_nothing_to_say_of_some_rows_is_no_error(said: type[Exception]) -> None:
    """Beside a row that raises, the others are not counted as raising where the law is silent."""

    def residual(batch: Batch) -> Array:
        if 3 in batch.x[:, 0]:
            raise ValueError("refused")
        raise said("it returns no log-det")

    measurable, raising, error = split(Standin(residual, features=1), 8)
    assert raising.tolist() == [3]
    assert len(measurable) == 7
    assert str(error) == "refused"
