"""Doubts before an accusation: they dismiss what is no defect, keep what is one, and accuse nobody."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from checking.broken import acquitting, credulous, failing_status
from checking.standins import Standin, allowed
from flowref.checking.judgement import DROPPED, HELD, UNDECIDED, VIOLATED, Judgement
from flowref.checking.review import FOREMOST, SINGLE_INSIDE, review
from flowref.checking.tolerance import CLEAR_FACTOR, CONFIRM_REPLICAS, SECOND_REPLICAS, judge
from flowref.model import (
    BOUND,
    EXACT,
    ROUNDING,
    Array,
    Batch,
    Call,
    Condition,
    Mapped,
    Observation,
    Support,
)

Review = Callable[[Judgement], Judgement]
KNOT = 0.75
# Batches that are reviewed at once, and those of which a few rows are reviewed first.
SIZES = (1, FOREMOST, FOREMOST + 1, 20)
sizes = pytest.mark.parametrize("rows", SIZES)


def everywhere(batch: Batch) -> Array:
    """A residual that nothing explains, at every point."""
    return np.full(len(batch.x), 1e-3)


def on_the_knot(batch: Batch) -> Array:
    """The same, at points on a knot only."""
    return np.where((batch.x == KNOT).any(1), 1e-3, 0.0)


def beyond_the_knot(batch: Batch) -> Array:
    """The same, at points on or beyond a knot."""
    return np.where((batch.x >= KNOT).any(1), 1e-3, 0.0)


def rows_with(value: float, rows: int) -> Array:
    """Ordinary points, of which the first has a coordinate of the value given."""
    x = np.linspace(-0.5, 0.5, 4 * rows).reshape(rows, 4)
    x[0, 1] = value
    return x


def keeps_what_persists(review: Review, rows: int) -> None:
    """A violation that is there beside the point as well stays one, with the point that shows it."""
    reviewed = review(Standin(beyond_the_knot).judged(rows_with(KNOT, rows)))
    assert reviewed.violates
    assert reviewed.measurement.batch.x[reviewed.worst(), 1] == KNOT


def dismisses_a_kink(review: Review, rows: int) -> None:
    """A violation on a knot only is undecided for a law of derivatives."""
    reviewed = review(Standin(on_the_knot).judged(rows_with(KNOT, rows)))
    assert not reviewed.violates
    assert (reviewed.outcome == UNDECIDED).sum() == 1


def creates_no_violation(review: Review, judgement: Judgement) -> None:
    """What is violated after the review was violated before it."""
    before = {x.tobytes() for x in judgement.measurement.batch.x[judgement.violated]}
    reviewed = review(judgement)
    assert {x.tobytes() for x in reviewed.measurement.batch.x[reviewed.violated]} <= before


@sizes
def test_a_violation_that_persists_beside_the_point_is_kept(rows: int) -> None:
    """A defect of an open set of points is no kink."""
    keeps_what_persists(review, rows)


@sizes
def test_a_violation_on_a_knot_only_is_dismissed(rows: int) -> None:
    """Where no derivative exists, a law of derivatives says nothing."""
    dismisses_a_kink(review, rows)


@pytest.mark.parametrize("rows", SIZES)
def test_a_law_of_values_holds_on_knots_too(rows: int) -> None:
    """A law that speaks of values, not of derivatives, is violated at a single point."""
    standin = Standin(on_the_knot, details={"local": False})
    assert review(standin.judged(rows_with(KNOT, rows))).violates


@given(
    arrays.arrays(np.float64, (6, 4), elements=st.floats(-2, 2), unique=True),
    arrays.arrays(
        np.float64, (6,), elements=st.sampled_from([0.0, 1e-15, 2e-13, 5e-13, 1e-9, 1.0, math.nan])
    ),
    st.sampled_from([0.0, 3.0, 30.0, 1e5, 1e13]),
    st.booleans(),
    st.sampled_from([ROUNDING, EXACT, BOUND]),
)
def test_a_review_creates_no_violation(
    x: Array, residuals: Array, response: float, local: bool, tolerance: str
) -> None:
    """Whatever the residuals, the noise and the law: what holds, is undecided or dropped is never
    turned into a violation.
    """
    table = {row.tobytes(): value for row, value in zip(x, residuals, strict=True)}
    standin = Standin(
        lambda batch: np.array([table.get(row.tobytes(), 0.0) for row in batch.x]),
        response=lambda magnitude: response * magnitude,
        details={"local": local, "tolerance": tolerance},
        more=lambda batch: {"decidable": batch.x[:, 0] > -1.5},
    )
    creates_no_violation(review, standin.judged(x))


def test_a_review_that_acquits_everybody_is_caught() -> None:
    """The property above fails for it, so it can fail."""
    with pytest.raises(AssertionError):
        keeps_what_persists(acquitting, 1)


@pytest.mark.parametrize("broken", [credulous, failing_status])
def test_a_review_that_believes_everything_is_caught(broken: Review) -> None:
    """The property of kinks fails for it, so it can fail."""
    with pytest.raises(AssertionError):
        dismisses_a_kink(broken, 1)


def test_a_review_that_accuses_everybody_is_caught() -> None:
    """The property that no violation is created fails for it, so it can fail."""
    judgement = Standin(lambda batch: np.zeros(len(batch.x))).judged(rows_with(0.0, 3))
    creates_no_violation(review, judgement)
    with pytest.raises(AssertionError):
        creates_no_violation(failing_status, judgement)


def test_outcomes_that_are_not_suspected_stay() -> None:
    """Beside a dismissed violation, points that hold or were dropped are what they were."""
    standin = Standin(on_the_knot, more=lambda batch: {"decidable": batch.x[:, 0] != 2.0})
    reviewed = review(standin.judged([[0.0] * 4, [0.0, KNOT, 0.0, 0.0], [2.0, KNOT, 0.0, 0.0]]))
    assert list(reviewed.outcome) == [HELD, UNDECIDED, DROPPED]


def test_what_shows_in_company_only_is_reviewed_in_company() -> None:
    """A violation that the worst rows do not show by themselves is kept, on the whole batch."""
    standin = Standin(lambda batch: np.full(len(batch.x), 1e-3 * (len(batch.x) > 5)))
    reviewed = review(standin.judged(rows_with(0.0, 20)))
    assert reviewed.violates
    assert len(reviewed.measurement.batch.x) == 20


def test_what_few_rows_show_is_recorded_on_few_rows() -> None:
    """Where the worst rows show the violation by themselves, no other row is paid for."""
    reviewed = review(Standin(everywhere).judged(rows_with(0.0, 20)))
    assert reviewed.violated.tolist() == [True] * FOREMOST
    assert reviewed.replicas == SECOND_REPLICAS


@pytest.mark.parametrize(
    ("times", "replicas"),
    [(CLEAR_FACTOR / 10, CONFIRM_REPLICAS), (10 * CLEAR_FACTOR, SECOND_REPLICAS)],
)
def test_what_is_far_beyond_noise_is_confirmed_in_a_second_look(
    times: float, replicas: int
) -> None:
    """The full number of runs is for violations that they might explain."""
    size = times * allowed()
    reviewed = review(Standin(lambda batch: np.full(len(batch.x), size)).judged(rows_with(0.0, 1)))
    assert reviewed.violates
    assert reviewed.replicas == replicas


def test_a_law_that_refuses_few_rows_is_reviewed_on_all() -> None:
    """That fewer rows cannot be measured says nothing about the batch."""

    def refusing(batch: Batch) -> Array:
        if len(batch.x) < 5:
            raise ValueError("too few rows")
        return everywhere(batch)

    assert len(review(Standin(refusing).judged(rows_with(0.0, 20))).outcome) == 20


def test_an_error_that_saturates_is_not_taken_for_a_defect() -> None:
    """Where any noise moves the residual as far as amplified noise does, what that explains is
    undecided, though the amplified noise, scaled back, explains nothing.
    """
    saturated = Standin(everywhere, response=lambda magnitude: 1e-3)
    judgement = saturated.judged(rows_with(0.0, 1))
    assert judgement.violates
    assert list(review(judgement).outcome) == [UNDECIDED]


@pytest.mark.parametrize(("size", "outcome"), [(1e-6, HELD), (1e-2, VIOLATED)])
def test_float32_inside_is_judged_at_its_roundoff(size: float, outcome: str) -> None:
    """Where float32 arithmetic feeds a float64 subject, errors of its size are no violations, and
    larger ones are.
    """
    standin = Standin(lambda batch: np.full(len(batch.x), size))
    judgement = standin.judged(np.zeros(4))
    assert judgement.violates

    def unmoved(x: Array, context: Array | None) -> Mapped:
        return Mapped(x, None)

    def observe(*_: Any) -> Observation:
        return Observation("", False, (), (), (), True, 0)

    never: Any = object()  # no manner is asked for
    calls = {"forward": Call("forward", unmoved, never, observe)}
    subject = replace(judgement.measurement.subject, calls=calls)
    reviewed = review(judge(replace(judgement.measurement, subject=subject)))
    assert list(reviewed.outcome) == [outcome]
    if outcome == VIOLATED:
        assert reviewed.measurement.precision == SINGLE_INSIDE


@pytest.mark.parametrize(("scale", "outcome"), [(0.0, VIOLATED), (0.3, UNDECIDED)])
def test_infinity_accuses_at_the_weights_as_given(scale: float, outcome: str) -> None:
    """After parameters were moved, points may lie outside every valid set: only finite values
    accuse there.
    """
    standin = Standin(lambda batch: np.full(len(batch.x), math.inf), details={"local": False})
    judgement = standin.judged(np.ones(4), condition=Condition(scale=scale))
    assert list(review(judgement).outcome) == [outcome]


@pytest.mark.parametrize("doubt", ["", "differences agree with the call"])
@sizes
def test_a_second_oracle_can_only_acquit(doubt: str, rows: int) -> None:
    """Its doubt turns the violations of the batch into undecided points with its reason; without
    one, all stays.
    """
    standin = Standin(everywhere, details={"arbitrate": lambda subject, point: ({}, doubt)})
    reviewed = review(standin.judged(rows_with(0.0, rows)))
    assert reviewed.violates is not bool(doubt)
    assert reviewed.acquitted is bool(doubt)
    assert not doubt or reviewed.reason == doubt


@pytest.mark.parametrize("kind", ["simplex", "ordered"])
def test_no_step_leaves_a_joint_set(kind: str) -> None:
    """On a simplex and on ordered points no coordinate moves alone, so nothing is dismissed as a
    kink.
    """
    x = {"simplex": [0.125, 0.5, 0.125, 0.25], "ordered": [0.0, 0.5, KNOT, 1.0]}[kind]
    standin = Standin(everywhere, support=Support.parse(kind))
    judgement = standin.judged(x)
    standin.measured.clear()
    assert review(judgement).violates
    assert all(np.array_equal(row, x) for batch in standin.measured for row in batch.x)


@given(arrays.arrays(np.float64, (5, 4), elements=st.floats(1e-9, 1 - 1e-9)))
def test_the_look_beside_a_point_stays_in_the_domain(x: Array) -> None:
    """However close to an end a point lies, the law is measured inside only."""
    support = Support.parse("unit")
    standin = Standin(everywhere, support=support)
    review(standin.judged(x))
    assert all(support.holds(batch.x).all() for batch in standin.measured)


def test_a_bound_is_not_reviewed() -> None:
    """Where no rounding is in question there is no doubt to raise: the judgement stands."""
    judgement = Standin(everywhere, details={"tolerance": EXACT}).judged(rows_with(0.0, 20))
    assert review(judgement) is judgement


def test_the_margin_of_a_confirmed_violation_is_that_of_the_confirming_runs() -> None:
    """The evidence that is reported comes from the most runs."""
    size = 100 * allowed()
    reviewed = review(Standin(lambda batch: np.full(len(batch.x), size)).judged(rows_with(0.0, 1)))
    assert reviewed.evidence(0).replicas == CONFIRM_REPLICAS
    assert reviewed.margin[0] == pytest.approx(100.0, rel=0.05)
