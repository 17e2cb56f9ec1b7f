"""Orders of convergence are those of the powers of the step."""

from __future__ import annotations

import numpy as np
import pytest

from flowref.model.convergence import TIMES, first_order, higher_order

RNG = np.random.default_rng(0)
COEFFICIENTS = RNG.standard_normal((2, 8, 3))


def falling(power: int, size: float = 0.1) -> list[np.ndarray]:
    """Errors of a power of the step, and a tenth as much of the next one."""
    leading, next_one = COEFFICIENTS
    return [(size / k) ** power * (leading + 0.1 * size / k * next_one) for k in TIMES]


@pytest.mark.parametrize("power", [1, 2, 3, 4])
def test_the_order_of_a_power_is_seen(power: int) -> None:
    """Of errors, and of values that have them."""
    errors = falling(power)
    assert first_order(errors) is (power == 1)
    assert higher_order([1 + error for error in errors]) is (power > 1)


@pytest.mark.parametrize("seed", range(20))
def test_errors_without_a_sign_are_of_no_order(seed: int) -> None:
    """As those of a field that jumps, however fast they fall."""
    rng = np.random.default_rng(seed)
    assert not first_order([rng.uniform(-1, 1, (8, 1)) / k for k in TIMES])


def test_a_constant_falls_with_no_step() -> None:
    """It is no error of a solver at all."""
    assert not first_order([error + 0.1 for error in falling(1)])


def test_few_rows_tell_no_order() -> None:
    """Where all others are next to nothing."""
    errors = falling(1)
    for error in errors:
        error[3:] = 0.0
    assert not first_order(errors)
