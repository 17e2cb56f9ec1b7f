"""The shrinker: what it returns violates as convincingly, is simpler, and lies in the support."""

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

from checking.broken import idle, out_of_the_support, to_another_violation, to_zero
from checking.standins import Standin
from flowref.checking.candidates import (
    complexity,
    cost,
    fewer_coordinates,
    rounder_numbers,
    simpler_numbers,
)
from flowref.checking.judgement import VIOLATED, Judgement
from flowref.checking.shrink import AMPLE, EVALUATIONS, LEAST_ATTEMPTS, least_margin, shrink
from flowref.checking.tolerance import CONFIRM_REPLICAS, judge
from flowref.model import (
    ADVICE,
    BOUND,
    EXACT,
    ROUNDING,
    STATISTICAL,
    Array,
    Batch,
    Residual,
    Subject,
    Support,
)

Shrinker = Callable[[Judgement], Judgement]
coordinates = st.floats(-100, 100)
points = arrays.arrays(np.float64, (1, 4), elements=coordinates)
weights = arrays.arrays(np.float64, (4,), elements=st.floats(-2, 2))
SUPPORTS = {
    "real": st.lists(coordinates, min_size=4, max_size=4),
    "unit": st.lists(st.floats(0.01, 0.99), min_size=4, max_size=4),
    "positive": st.lists(st.floats(0.01, 50), min_size=4, max_size=4),
    "ordered": st.lists(coordinates, min_size=4, max_size=4, unique=True).map(sorted),
    "(-3,-1)": st.lists(st.floats(-2.99, -1.01), min_size=4, max_size=4),
}


def half_space(normal: Array, size: float = 1e-3) -> Callable[[Batch], Array]:
    """A residual on one side of a plane through the middle of nowhere: it grows with the distance."""
    return lambda batch: size * np.maximum(0.0, batch.x @ normal - 0.25)


def violates_as_convincingly(shrinker: Shrinker, judgement: Judgement) -> None:
    """What comes back violates, with a margin that is not lost on the way; measured again, its
    residual is the one that is told.
    """
    shrunk = shrinker(judgement)
    again = shrunk.measurement.again(shrunk.measurement.batch)
    np.testing.assert_array_equal(again.size, shrunk.measurement.size)
    row = shrunk.worst()
    assert shrunk.outcome[row] == VIOLATED
    assert shrunk.margin[row] >= least_margin(judgement)


def stays_in_the_support(shrinker: Shrinker, judgement: Judgement) -> None:
    """What comes back lies where the law draws its points, and keeps what else was given."""
    measurement, shrunk = judgement.measurement, shrinker(judgement).measurement
    assert measurement.subject.domain.holds(shrunk.batch.x).all()
    assert shrunk.batch.seed == measurement.batch.seed
    assert shrunk.condition == measurement.condition
    assert (shrunk.law, shrunk.precision) == (measurement.law, measurement.precision)


def finds_the_coordinate_that_matters(shrinker: Shrinker) -> None:
    """Of four coordinates with long decimals, the one that makes the violation is left, in one
    digit.
    """
    standin = Standin(lambda batch: 1e-3 * (batch.x[:, 2] > 1.5))
    shrunk = shrinker(standin.judged([0.7283, -13.37, 2.71828, 0.5772]))
    np.testing.assert_array_equal(shrunk.measurement.batch.x, [[0.0, 0.0, 3.0, 0.0]])


@given(points, weights)
def test_what_is_shrunk_violates(x: Array, normal: Array) -> None:
    """Whatever part of the space a law is violated in, the shrinker stays there, and the margin is
    as convincing as before.
    """
    judgement = Standin(half_space(normal)).judged(x)
    if judgement.violates:
        violates_as_convincingly(shrink, judgement)


@given(st.data(), st.sampled_from(sorted(SUPPORTS)), weights)
def test_what_is_shrunk_lies_in_the_support(data: st.DataObject, name: str, normal: Array) -> None:
    """Bounded, one-sided and joint sets are not left for a rounder number."""
    x = np.array([data.draw(SUPPORTS[name])])
    standin = Standin(half_space(normal), support=Support.parse(name), details={"local": False})
    judgement = standin.judged(x)
    if judgement.violates:
        stays_in_the_support(shrink, judgement)


def test_the_coordinate_that_matters_is_left() -> None:
    """The other coordinates become zero, and the last one a number that is read at a glance."""
    finds_the_coordinate_that_matters(shrink)


def test_an_error_that_grows_with_the_distance_is_shown_near_zero() -> None:
    """An error a hundred times as large far away as near zero is as plain near zero."""
    standin = Standin(lambda batch: 1e-2 * np.abs(batch.x[:, 2]))
    shrunk = shrink(standin.judged([0.0, 0.0, -100.0, 0.0]))
    np.testing.assert_array_equal(point(shrunk), [0.0, 0.0, 1.0, 0.0])


@given(points, weights)
def test_shrinking_twice_gives_the_same(x: Array, normal: Array) -> None:
    """The shrinker is a function: the same violation is shrunk to the same point to the last bit."""
    judgement = Standin(half_space(normal)).judged(x)
    if judgement.violates:
        first, second = shrink(judgement), shrink(judgement)
        assert first.measurement.batch.x.tobytes() == second.measurement.batch.x.tobytes()
        assert first.margin.tobytes() == second.margin.tobytes()


@given(points, weights)
def test_what_is_shrunk_is_simpler(x: Array, normal: Array) -> None:
    """It is never harder to read than what was given, nor than what it was shrunk to before."""
    judgement = Standin(half_space(normal)).judged(x)
    if judgement.violates:
        shrunk = shrink(judgement)
        assert complexity(point(shrunk)) <= complexity(point(judgement))
        assert complexity(point(shrink(shrunk))) <= complexity(point(shrunk))


@given(points, arrays.arrays(np.float64, (4,), elements=st.sampled_from([-2.0, 0.0, 1.0])))
def test_what_is_shrunk_is_left_alone(x: Array, normal: Array) -> None:
    """Where the margin is the same everywhere, the shrinker stops only where nothing simpler is
    left to try: shrunk again, the point stays.
    """
    judgement = Standin(lambda batch: 1e-3 * (batch.x @ normal > 0.25)).judged(x)
    if judgement.violates:
        shrunk = shrink(judgement)
        np.testing.assert_array_equal(point(shrink(shrunk)), point(shrunk))


def point(judgement: Judgement) -> Array:
    """The only point of a judgement."""
    (only,) = judgement.measurement.batch.x
    return np.asarray(only)


@pytest.mark.parametrize("broken", [to_zero, to_another_violation])
def test_a_shrinker_that_changes_the_violation_is_caught(broken: Shrinker) -> None:
    """The first property fails for it, so it can fail."""
    judgement = Standin(lambda batch: 1e-3 * np.abs(batch.x[:, 0])).judged([2.5, 0.1, 0.2, 0.3])
    violates_as_convincingly(shrink, judgement)
    with pytest.raises(AssertionError):
        violates_as_convincingly(broken, judgement)


def test_a_shrinker_that_leaves_the_support_is_caught() -> None:
    """The second property fails for it, so it can fail."""
    standin = Standin(lambda batch: np.full(len(batch.x), 1e-3), support=Support.parse("unit"))
    judgement = standin.judged([0.9, 0.8, 0.7, 0.6])
    stays_in_the_support(shrink, judgement)
    with pytest.raises(AssertionError):
        stays_in_the_support(out_of_the_support, judgement)


@pytest.mark.parametrize("broken", [idle, to_zero])
def test_a_shrinker_that_does_not_shrink_is_caught(broken: Shrinker) -> None:
    """The third property fails for it, so it can fail."""
    with pytest.raises(AssertionError):
        finds_the_coordinate_that_matters(broken)


@pytest.mark.parametrize(("rows", "needed"), [(20, 1), (20, 2), (20, 4), (3, 3)])
def test_as_few_rows_as_show_it_are_left(rows: int, needed: int) -> None:
    """A violation that takes company keeps as much company as it takes."""
    standin = Standin(lambda batch: np.full(len(batch.x), 1e-3 * (len(batch.x) >= needed)))
    x = np.linspace(-1, 1, 4 * rows).reshape(rows, 4)
    assert len(shrink(standin.judged(x)).measurement.batch.x) == needed


def test_a_point_is_not_shrunk_onto_a_kink() -> None:
    """Zero, where the residual is large at the point alone, is no simpler input for a law of
    derivatives: the shrinker goes where the violation is there beside the point as well.
    """
    standin = Standin(
        lambda batch: np.where((batch.x == 0).all(1), 1.0, 1e-3 * (batch.x > 1).all(1))
    )
    shrunk = shrink(standin.judged([1.61, 1.62, 1.63, 1.64]))
    np.testing.assert_array_equal(point(shrunk), [2.0] * 4)


def test_a_point_that_only_a_glance_accuses_is_not_returned() -> None:
    """Where a few runs see a violation and many see that rounding explains it, the shrinker goes
    back to the last point that many runs confirm: that is what a replay will find.
    """
    standin = Standin(lambda batch: np.ones(len(batch.x)), details={"local": False})

    def measure(subject: Subject, batch: Batch) -> Residual:
        excused = standin.level != 0 and standin.seeds[-1] % 4 == 0
        zero = (batch.x == 0).all(1)
        return Residual(np.where(zero & excused, 0.0, 1.0))

    measurement = standin.measurement([0.37, 4.5, 6.7, 8.9])
    measurement = replace(measurement, law=replace(standin.law, measure=measure))
    at_zero = measurement.again(measurement.batch._replace(x=np.zeros((1, 4))))
    assert judge(at_zero).violates
    assert not judge(at_zero, CONFIRM_REPLICAS).violates
    shrunk = shrink(judge(measurement))
    assert judge(shrunk.measurement, CONFIRM_REPLICAS).violates


def test_the_context_stays_with_its_point() -> None:
    """The context of the row that violates is kept, whatever becomes of the point."""
    standin = Standin(lambda batch: 1e-3 * (np.asarray(batch.context)[:, 0] == 7.0))
    judgement = standin.judged(np.full((5, 4), 0.37), context=[[1.0], [2.0], [7.0], [3.0], [4.0]])
    batch = shrink(judgement).measurement.batch
    np.testing.assert_array_equal(batch.x, np.zeros((1, 4)))
    np.testing.assert_array_equal(batch.context, [[7.0]])


def test_a_point_that_cannot_be_measured_is_no_simpler_point() -> None:
    """Where the law raises, the shrinker goes another way."""

    def refusing(batch: Batch) -> Array:
        if (batch.x == 0).any():
            raise ValueError("zero is refused")
        return np.full(len(batch.x), 1e-3)

    shrunk = shrink(Standin(refusing).judged([0.123, 4.56, 7.89, 1.23]))
    assert (shrunk.measurement.batch.x != 0).all()


@pytest.mark.parametrize("tolerance", [BOUND, STATISTICAL])
def test_an_integral_has_no_simpler_point(tolerance: str) -> None:
    """Laws of means and integrals hang on no point, and nothing is measured for it."""
    standin = Standin(lambda batch: np.ones(len(batch.x)), details={"tolerance": tolerance})
    judgement = standin.judged([0.123] * 4)
    standin.measured.clear()
    assert shrink(judgement) is judgement
    assert standin.measured == []


def test_an_exact_law_only_needs_to_stay_violated() -> None:
    """Where nothing is allowed every residual violates, so a smaller one is as good."""
    standin = Standin(
        lambda batch: 1e-9 * np.abs(batch.x[:, 0]), details={"tolerance": EXACT, "local": False}
    )
    shrunk = shrink(standin.judged([1e6 + 0.37, 0.1, 0.2, 0.3]))
    np.testing.assert_array_equal(shrunk.measurement.batch.x, [[1.0, 0.0, 0.0, 0.0]])


@pytest.mark.parametrize(
    ("force", "operations", "most"),
    [("claim", 10**9, LEAST_ATTEMPTS), ("claim", 0, EVALUATIONS), (ADVICE, 0, 0)],
)
def test_the_budget_is_kept(force: str, operations: int, most: int) -> None:
    """Costly subjects are judged surely a few times only, and points of advice never."""
    standin = Standin(lambda batch: 1e-3 * (batch.x > 1).all(1), details={"force": force})
    judgement = standin.judged([1.61, 1.62, 1.63, 1.64])
    subject = replace(judgement.measurement.subject, operations=operations)
    standin.seeds.clear()
    shrink(replace(judgement, measurement=replace(judgement.measurement, subject=subject)))
    # Two runs a glance, at a point and twice beside it; and those of one confirmation.
    assert len(standin.seeds) <= 6 * most + 12


@pytest.mark.parametrize("candidates", [fewer_coordinates, rounder_numbers])
@given(
    coordinates_of=st.lists(coordinates, min_size=1, max_size=6),
    name=st.sampled_from(["real", "unit"]),
)
def test_candidates_are_simpler_and_in_the_support(
    candidates: Callable[[Support, Array], Array], coordinates_of: list[float], name: str
) -> None:
    """Each is finite, lies in the support, and is easier to read than the point."""
    support, start = Support.parse(name), np.array(coordinates_of)
    rows = candidates(support, start)
    assert rows.shape[1:] == start.shape
    for row in rows:
        assert support.holds(row[None]).all()
        assert complexity(row) < complexity(start)


def test_zero_has_no_sign() -> None:
    """A reader does not ask what -0 means."""
    found = rounder_numbers(Support.parse("real"), np.array([-0.3, 2.34]))
    assert not np.signbit(found[found == 0]).any()


@given(st.floats(-1e300, 1e300))
def test_simpler_numbers_are_simpler(value: float) -> None:
    """Each costs less to read, and none is the number itself; zero has none."""
    simpler = simpler_numbers(value)
    assert all(cost(number) < cost(value) for number in simpler)
    assert value not in simpler
    assert all(math.isfinite(number) for number in simpler)
    assert value != 0 or simpler == []


def test_rounding_laws_keep_a_tenth_of_the_margin() -> None:
    """A large margin may fall to a tenth, a small one not at all, and none below ten by more than
    it was.
    """
    floors = {}
    for margin in (2.0, 50.0, 1e6, 1e14):
        judgement = Standin(lambda batch: batch.x[:, 0], details={"tolerance": ROUNDING}).judged(
            [1.0, 0.0, 0.0, 0.0]
        )
        floors[margin] = least_margin(_with_margin(judgement, margin))
    assert floors == pytest.approx({2.0: 2.0, 50.0: 10.0, 1e6: 1e5, 1e14: AMPLE})


def _with_margin(judgement: Judgement, margin: float) -> Any:
    return replace(judgement, allowed=judgement.measurement.size / margin)
