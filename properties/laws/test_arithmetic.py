"""The arithmetic of the laws themselves is exact enough to tell rounding from a defect."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from flowref.laws.common.arithmetic import log_abs_det, richardson_jacobian
from flowref.laws.common.probes import tolerance_of
from flowref.laws.common.quotients import STEPS_DOWN, direction_within_support, quotient
from flowref.model import Array, Facts, Mapped, Subject, Support

UNIT = 2.0**-53

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

    found, error = richardson_jacobian(call, x, None)
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
    subject = Subject(name="stand-in", facts=Facts((1,), promises=promises))
    found = {which: tolerance_of(subject, which) for which in ("forward", "inverse", "log_prob")}
    assert {which for which, tolerance in found.items() if tolerance} == {allowed_to}


@given(arrays.arrays(np.float64, (4, 3), elements=st.floats(1e-9, 1 - 1e-9)), st.integers(0, 99))
def test_steps_of_differences_stay_in_a_bounded_set(x: Array, seed: int) -> None:
    """However close to an end a coordinate lies, and no coordinate is left out."""
    support = Support("interval", 0.0, 1.0)
    direction = direction_within_support(
        x, np.random.default_rng(seed).standard_normal(x.shape), support
    )
    assert support.holds(x + STEPS_DOWN[0] * direction).all()
    assert support.holds(x - STEPS_DOWN[0] * direction).all()
    assert (direction != 0).all()


@pytest.mark.parametrize("heavy", [False, True])
def test_a_quotient_of_one_call_is_that_of_many(heavy: bool) -> None:
    """Shifted points in one batch give the same derivatives and error estimates as in a batch each."""
    rng, calls = np.random.default_rng(0), []

    def measure(x: Array) -> Array:
        calls.append(len(x))
        return np.asarray(np.tanh(x).sum(1) + np.abs(x[:, 0]))

    x, direction = rng.standard_normal((2, 5, 3))
    each = quotient(measure, x, direction, None, heavy)
    assert set(calls) == {5}
    calls.clear()
    one = quotient(measure, x, direction, None, heavy, together=True)
    assert len(calls) == 1
    for first, second in zip(each, one, strict=True):
        np.testing.assert_array_equal(first, second)
