"""Judging residuals: rounding is excused, defects are not, and the laws' own arithmetic is exact
enough to say which.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from flowref.checking.tolerance import (
    DOUBLE,
    DROPPED,
    HELD,
    SCREEN,
    SINGLE,
    TRIVIAL,
    UNDECIDED,
    VIOLATED,
    Judgement,
    judge,
)
from flowref.laws.common.arithmetic import differences, log_abs_det
from flowref.laws.common.outcomes import tolerance_of
from flowref.laws.conduct.autograd import STEPS_DOWN, within
from flowref.model import (
    BOUND,
    EXACT,
    ROUNDING,
    STATISTICAL,
    Array,
    Batch,
    Evidence,
    Law,
    Mapped,
    Residual,
    Subject,
    Support,
    law,
)

UNIT = DOUBLE.unit
# How far rounding moves the residual of the stand-in subject, in units of the noise.
RESPONSE = 3.0


class Standin:
    """A subject whose only ability is noise, and a law about it: each point's residual is ``x``,
    moved by the noise.
    """

    def __init__(self, response: float = RESPONSE) -> None:
        self.response = response
        self.level = 0.0
        self.seeds: list[int] = []
        self.subject = Subject(
            name="stand-in", event_shape=(1,), latent_shape=(1,), noise=self.noise
        )

    @contextlib.contextmanager
    def noise(self, seed: int, magnitude: float) -> Iterator[None]:
        """Noise that moves every residual by a draw that depends on the seed."""
        self.seeds.append(seed)
        self.level = (
            magnitude * self.response * np.random.default_rng(seed % 2**63).choice((-1.0, 1.0))
        )
        try:
            yield
        finally:
            self.level = 0.0

    def measure(self, subject: Subject, batch: Batch) -> Residual:
        """The point is its own residual."""
        return Residual(batch.x + self.level, scale=1.0)

    def law(self, tolerance: str = ROUNDING) -> Law:
        """The law that measures this."""
        return replace(law("test/stand-in", needs=set())(self.measure), tolerance=tolerance)

    def judge(self, *residuals: float, tolerance: str = ROUNDING, **details: Any) -> Judgement:
        """The judgement of points with the given residuals."""
        batch = Batch(np.array(residuals)[:, None], None, 0)
        stated = self.law(tolerance)
        residual = replace(self.measure(self.subject, batch), **details)
        return judge(stated, self.subject, batch, residual)


def allowed(response: float = RESPONSE) -> float:
    """What the stated formula allows a point of scale one: k (s / M + u / 4), with s = M u times
    the response.
    """
    return DOUBLE.factor * (response * UNIT + UNIT / 4)


@pytest.mark.parametrize("units", [0.0, 1.0, -4.0, 15.9, -16.0])
def test_a_few_units_of_rounding_hold_at_once(units: float) -> None:
    """Up to sixteen units of roundoff a point holds, and no noise is paid for."""
    standin = Standin()
    found = standin.judge(units * UNIT)
    assert list(found.outcome) == [HELD]
    assert standin.seeds == []


@pytest.mark.parametrize("fraction", [0.2, 0.5, 0.9, -0.9])
def test_what_rounding_explains_holds(fraction: float) -> None:
    """A residual within k times the measured response, though far beyond the screen, is excused."""
    size = fraction * allowed()
    assert abs(size) > SCREEN * UNIT
    assert list(Standin().judge(size).outcome) == [HELD]


@pytest.mark.parametrize("factor", [1.1, 2.0, 1e3, 1e9, -1.1, -1e9])
def test_what_rounding_does_not_explain_is_accused(factor: float) -> None:
    """A residual beyond k times the measured response is a violation, with its margin."""
    found = Standin().judge(factor * allowed())
    assert list(found.outcome) == [VIOLATED]
    assert found.margin[0] == pytest.approx(abs(factor), rel=1e-6)
    assert found.evidence(0).margin == pytest.approx(abs(factor), rel=1e-6)


@pytest.mark.parametrize("response", [1e12, 1e14])
def test_a_response_that_is_not_small_decides_nothing(response: float) -> None:
    """Where noise moves the result by more than a hundredth of its scale, ordinary residuals are
    undecided, not held.
    """
    assert list(Standin(response).judge(0.1).outcome) == [UNDECIDED]


def test_an_unsteady_result_is_still_accused_of_more_than_noise_can_do() -> None:
    """A residual far beyond even the amplified response is a violation in the worst conditions."""
    response = 1e12
    assert list(
        Standin(response).judge(100 * DOUBLE.factor * DOUBLE.amplify * UNIT * response).outcome
    ) == [VIOLATED]


def test_points_are_judged_one_by_one() -> None:
    """A bad point does not condemn its batch, and a good batch does not excuse its bad point."""
    found = Standin().judge(0.0, 1e3 * allowed(), UNIT)
    assert list(found.outcome) == [HELD, VIOLATED, HELD]
    assert found.worst() == 1


def test_a_scale_belongs_to_its_point() -> None:
    """A large point in the batch does not raise what is allowed at a small one."""
    found = Standin().judge(1e-9, 1e-9, scale=np.array([1e-6, 1e6]))
    assert list(found.outcome) == [VIOLATED, HELD]


def test_silence_is_counted_apart() -> None:
    """Points about which the law says nothing, and points that hold whatever the subject does, are
    neither held nor bad.
    """
    found = Standin().judge(
        1.0,
        0.0,
        1.0,
        decidable=np.array([False, True, True]),
        trivial=np.array([False, True, True]),
    )
    assert list(found.outcome) == [DROPPED, TRIVIAL, VIOLATED]


@pytest.mark.parametrize("tolerance", [BOUND, STATISTICAL])
def test_a_stated_bound_is_the_whole_allowance(tolerance: str) -> None:
    """Laws with a bound of their own allow that and nothing for rounding; no noise is paid for."""
    standin = Standin()
    found = standin.judge(0.9, 1.1, tolerance=tolerance, allowed=1.0)
    assert list(found.outcome) == [HELD, VIOLATED]
    assert standin.seeds == []


def test_an_exact_law_allows_nothing() -> None:
    """For an exact law the smallest number is a violation, with an infinite margin."""
    found = Standin().judge(0.0, 5e-324, tolerance=EXACT)
    assert list(found.outcome) == [HELD, VIOLATED]
    assert math.isinf(found.margin[1])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_value_that_is_never_finite_is_accused(bad: float) -> None:
    """Nan and infinity at an ordinary point, in every run, are violations: rounding is no excuse."""
    standin = Standin()
    batch = Batch(np.array([[1.0]]), None, 0)
    stated = replace(standin.law(), measure=lambda subject, batch: Residual(np.array([[bad]])))
    found = judge(stated, standin.subject, batch, stated.measure(standin.subject, batch))
    assert list(found.outcome) == [VIOLATED]


def test_a_subject_without_noise_is_not_accused_of_rounding() -> None:
    """Where rounding cannot be measured, what the screen does not pass is undecided."""
    standin = Standin()
    standin.subject = replace(standin.subject, noise=None)
    assert list(standin.judge(1.0, 0.0).outcome) == [UNDECIDED, HELD]


def test_judging_is_a_function_of_its_arguments() -> None:
    """Judged again, a batch meets the same noise: seeds come from the inputs, not from a counter;
    other inputs, other seeds.
    """
    first, again, other = Standin(), Standin(), Standin()
    judgements = [
        standin.judge(size) for standin, size in ((first, 1e-9), (again, 1e-9), (other, 2e-9))
    ]
    again.judge(1e-9)
    assert again.seeds == first.seeds * 2
    assert not set(first.seeds) & set(other.seeds)
    assert judgements[0].margin == judgements[1].margin


@pytest.mark.parametrize("precision", [DOUBLE, SINGLE], ids=["float64", "float32"])
def test_a_format_is_judged_at_its_own_roundoff(precision: Any) -> None:
    """Residuals of eight units of roundoff of the format hold, and those of a million units do not."""
    standin = Standin()
    for units, outcome in ((8.0, HELD), (1e6, VIOLATED)):  # two sides of one threshold
        batch = Batch(np.array([[units * precision.unit]]), None, 0)
        residual = standin.measure(standin.subject, batch)
        assert list(judge(standin.law(), standin.subject, batch, residual, precision).outcome) == [
            outcome
        ]


@pytest.mark.parametrize(("replicas", "runs"), [(6, 4), (8, 5), (16, 9), (32, 12)])
def test_a_batch_that_stands_several_times_over_saves_runs(replicas: int, runs: int) -> None:
    """Where the larger batch gives the residual of the batch, fewer runs give as many replicas."""
    standin = Standin()
    batch = Batch(np.full((3, 1), 30 * allowed()), None, 0)
    residual = standin.measure(standin.subject, batch)
    found = judge(standin.law(), standin.subject, batch, residual, replicas=replicas)
    assert len(standin.seeds) == runs
    assert found.replicas == replicas
    assert (found.outcome == VIOLATED).all()


class Lonely(Standin):
    """Its residual is there in a batch of one only."""

    def measure(self, subject: Subject, batch: Batch) -> Residual:
        """Zero in company."""
        return Residual(batch.x * (len(batch.x) == 1) + self.level, scale=1.0)


def test_a_larger_batch_that_measures_something_else_is_not_used() -> None:
    """What shows in a small batch only is not excused by what a larger one would give."""
    standin = Lonely()
    batch = Batch(np.full((1, 1), 30 * allowed()), None, 0)
    found = judge(
        standin.law(), standin.subject, batch, standin.measure(standin.subject, batch), replicas=32
    )
    assert len(standin.seeds) == 32
    assert (found.outcome == VIOLATED).all()


def test_evidence_without_allowance_has_an_infinite_margin() -> None:
    """The margin of a residual where nothing is allowed is infinite, and zero where the residual is
    zero.
    """
    assert math.isinf(Evidence(1e-300, 0.0).margin)
    assert Evidence(0.0, 0.0).margin == 0.0


entries = st.integers(-(2**12), 2**12).map(lambda value: value / 64)
matrices = st.integers(1, 6).flatmap(
    lambda size: arrays.arrays(np.float64, (size, size), elements=entries)
)


def log_det(matrices: Array) -> Array:
    """log|det|, with numpy's warnings off as they are while a law is measured."""
    with np.errstate(all="ignore"):
        return log_abs_det(matrices)


def exact_determinant(matrix: Array) -> Fraction:
    """The determinant of a matrix of floats by elimination in fractions."""
    rows = [[Fraction(value) for value in row] for row in matrix.tolist()]
    product = Fraction(1)
    for step in range(len(rows)):
        pivot = next((row for row in range(step, len(rows)) if rows[row][step]), None)
        if pivot is None:
            return Fraction(0)
        if pivot != step:
            rows[step], rows[pivot] = rows[pivot], rows[step]
            product = -product
        product *= rows[step][step]
        for below in rows[step + 1 :]:
            factor = below[step] / rows[step][step]
            below[:] = [
                value - factor * above for value, above in zip(below, rows[step], strict=True)
            ]
    return product


@given(matrices)
def test_log_det_agrees_with_exact_arithmetic(matrix: Array) -> None:
    """log|det| in extended precision is that of exact fractions to a few units of double roundoff,
    singular ones included.
    """
    determinant = exact_determinant(matrix)
    (found,) = log_det(matrix[None])
    if determinant == 0:
        assert found < -20  # the pivot left over is rounding, or nothing
        return
    expected = float(mpmath.log(abs(mpmath.mpf(determinant.numerator) / determinant.denominator)))
    hadamard = float(np.log(np.linalg.norm(matrix, axis=1)).sum())
    # What elimination loses grows with how far the determinant lies below Hadamard's bound.
    slack = 2.0**-60 * len(matrix) ** 3 * math.exp(min(40.0, hadamard - expected))
    assert found == pytest.approx(expected, abs=8 * UNIT * (1 + abs(expected)) + slack)


@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_log_det_of_a_hilbert_matrix(size: int) -> None:
    """On Hilbert matrices, rounded to doubles, it agrees with fifty digits as far as extended
    precision reaches.
    """
    matrix = 1.0 / (np.arange(size)[:, None] + np.arange(size) + 1.0)
    with mpmath.workdps(50):
        expected = float(mpmath.log(abs(mpmath.det(mpmath.matrix(matrix.tolist())))))
    assert log_det(matrix[None])[0] == pytest.approx(expected, rel=1e-8)


@given(matrices, st.integers(-30, 30), st.randoms(use_true_random=False))
def test_log_det_laws(matrix: Array, exponent: int, order: Any) -> None:
    """Scaling by a power of two adds n k log 2; permuting rows and columns changes nothing."""
    size = len(matrix)
    rows, columns = order.sample(range(size), size), order.sample(range(size), size)
    plain, scaled, permuted = log_det(
        np.stack([matrix, matrix * 2.0**exponent, matrix[rows][:, columns]])
    )
    if plain < -10:  # near singular, or singular
        return
    slack = 1e-9 * (1 + abs(plain) + abs(exponent))
    assert scaled == pytest.approx(plain + size * exponent * math.log(2), abs=slack)
    assert permuted == pytest.approx(plain, abs=slack)


def test_log_dets_of_a_batch_do_not_touch() -> None:
    """A matrix that is not finite gives nan in its own row and leaves the others alone."""
    batch = np.stack([np.eye(3), np.full((3, 3), np.nan), 2 * np.eye(3)])
    np.testing.assert_allclose(log_det(batch), [0.0, np.nan, 3 * math.log(2)], rtol=0, atol=1e-15)


@pytest.mark.parametrize("point", [0.0, 1.0, -2.5, 30.0])
def test_differences_lie_within_their_own_error_estimate(point: float) -> None:
    """The derivative of a smooth map by differences is as close to the truth as the estimate of its
    error says, times twenty.
    """
    x = np.array([[point, 0.5]])

    def call(x: Array, context: Array | None) -> Mapped:
        return Mapped(np.stack([np.sin(x[:, 0]) + x[:, 1] ** 3, np.tanh(x[:, 1])], 1), None)

    found, error = differences(call, x, None)
    expected = np.array([[np.cos(point), 3 * 0.25], [0.0, 1 - np.tanh(0.5) ** 2]])
    assert np.abs(found[0] - expected).max() <= 20 * float(error) + 1e-15
    assert float(error) < 1e-6


@pytest.mark.parametrize(
    ("iterative_forward", "allowed_to"), [(False, "inverse"), (True, "forward")]
)
def test_the_error_of_a_solver_is_allowed_to_the_call_that_solves(
    iterative_forward: bool, allowed_to: str
) -> None:
    """The other direction is in closed form, and gets nothing."""
    promises = {"inverse_tolerance": 1e-3, "iterative-forward": iterative_forward}
    subject = Subject(name="stand-in", event_shape=(1,), latent_shape=(1,), promises=promises)
    found = {which: tolerance_of(subject, which) for which in ("forward", "inverse", "log_prob")}
    assert {which for which, tolerance in found.items() if tolerance} == {allowed_to}


@given(arrays.arrays(np.float64, (4, 3), elements=st.floats(1e-9, 1 - 1e-9)), st.integers(0, 99))
def test_steps_of_differences_stay_in_a_bounded_set(x: Array, seed: int) -> None:
    """However close to an end a coordinate lies, and no coordinate is left out."""
    support = Support("interval", 0.0, 1.0)
    direction = within(x, np.random.default_rng(seed).standard_normal(x.shape), support)
    assert support.holds(x + STEPS_DOWN[0] * direction).all()
    assert support.holds(x - STEPS_DOWN[0] * direction).all()
    assert (direction != 0).all()
