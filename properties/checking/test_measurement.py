"""What is measured: a value that its subject cannot change, and that can be measured again on other
points.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from checking.standins import Standin
from flowref.checking.measurement import DOUBLE, SINGLE, precision_of
from flowref.model import Array, Batch, Condition

points = arrays.arrays(
    np.float64, st.tuples(st.integers(1, 6), st.just(4)), elements=st.floats(-9, 9)
)


def in_place(batch: Batch) -> Array:
    """A residual whose computation overwrites its inputs."""
    batch.x[:] = 0.0
    if batch.context is not None:
        batch.context[:] = 0.0
    return np.zeros(len(batch.x))


@given(points)
def test_a_subject_that_works_in_place_cannot_touch_the_batch(x: Array) -> None:
    """Points and contexts are afterwards what they were, to the last bit."""
    measurement = Standin(in_place).measurement(x, context=x)
    np.testing.assert_array_equal(measurement.batch.x, x)
    np.testing.assert_array_equal(measurement.batch.context, x)


@given(points, st.data())
def test_rows_are_measured_alone(x: Array, data: st.DataObject) -> None:
    """Some rows are measured without the others: what the law says of them there is the residual,
    not what it said in company.
    """
    crowded = Standin(lambda batch: batch.x[:, 0] + 100.0 * len(batch.x))
    rows = np.array(data.draw(st.lists(st.integers(0, len(x) - 1), min_size=1, max_size=3)))
    few = crowded.measurement(x, context=x).rows(rows)
    np.testing.assert_array_equal(few.batch.x, x[rows])
    np.testing.assert_array_equal(few.batch.context, x[rows])
    np.testing.assert_array_equal(few.residual.value, x[rows, 0] + 100.0 * len(rows))
    assert few.batch.seed == 5


def test_another_format_keeps_the_numbers() -> None:
    """To be judged at another format, nothing is measured again."""
    standin = Standin(lambda batch: batch.x[:, 0])
    measurement = standin.measurement(np.ones(4))
    assert measurement.at(SINGLE).residual is measurement.residual
    assert measurement.at(SINGLE).precision == SINGLE
    assert len(standin.measured) == 1


@pytest.mark.parametrize(("dtype", "precision"), [("float64", DOUBLE), ("float32", SINGLE)])
def test_a_subject_is_judged_at_the_format_it_runs_in(dtype: str, precision: object) -> None:
    """The dtype of the subject decides, not that of the arrays, which are always float64."""
    from dataclasses import replace

    subject = replace(Standin(lambda batch: batch.x[:, 0]).subject, dtype=dtype)
    assert precision_of(subject) == precision


@pytest.mark.parametrize(("scale", "moved"), [(0.0, False), (0.1, True)])
def test_moved_is_read_off_the_condition(scale: float, moved: bool) -> None:
    """Parameters are moved where the condition moves them."""
    standin = Standin(lambda batch: batch.x[:, 0])
    assert standin.measurement(np.ones(4), condition=Condition(scale=scale)).moved is moved


def test_a_measurement_is_frozen() -> None:
    """Nobody on the way can put another batch into it."""
    measurement = Standin(lambda batch: batch.x[:, 0]).measurement(np.ones(4))
    with pytest.raises(FrozenInstanceError):
        measurement.seed = 1  # type: ignore[misc]  # that it cannot be assigned is the property


def test_one_scale_and_one_bound_serve_every_point() -> None:
    """A law may give one number for all points: each point has it."""
    standin = Standin(
        lambda batch: batch.x[:, 0], more=lambda batch: {"allowed": 2.0, "scale": 3.0}
    )
    measurement = standin.measurement(np.ones((2, 4)))
    assert measurement.scale.tolist() == [3.0, 3.0]
    assert measurement.bound.tolist() == [2.0, 2.0]
