"""Residues obey the laws of the functions that they stand for, and no others."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from flowref.proving.exact.fields import is_prime, tower_of
from flowref.proving.exact.operators import OPERATORS
from flowref.proving.exact.residues import Field, Residues
from flowref.proving.numbers import NotModelled

SHAPE = (2, 3)
# Identities of two numbers a and b.
TRUE: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "sum of exponents": lambda a, b: ((a + b).exp(), a.exp() * b.exp()),
    "inverse exponent": lambda a, b: ((-a).exp(), a.exp().reciprocal()),
    "exponent of a logarithm": lambda a, b: (a.log().exp(), a),
    "logarithm of a product": lambda a, b: ((a.log() + b.log()).exp(), a * b),
    "half of a logarithm": lambda a, b: (
        a.log().by_halves(1).exp() * a.log().by_halves(1).exp(),
        a,
    ),
    "square of a root": lambda a, b: (a.sqrt() * a.sqrt(), a),
    "square of an absolute": lambda a, b: (OPERATORS["abs"](a) * OPERATORS["abs"](a), a * a),
    "absolute of a negative": lambda a, b: (OPERATORS["abs"](a), OPERATORS["abs"](-a)),
    "square of a square": lambda a, b: (OPERATORS["abs"](a * a), a * a),
    "hyperbolas": lambda a, b: (
        OPERATORS["cosh"](a) * OPERATORS["cosh"](a) - OPERATORS["sinh"](a) * OPERATORS["sinh"](a),
        a.constant(1),
    ),
    "quotient": lambda a, b: (a / b * b, a),
    "fractions": lambda a, b: (a * a.constant(Fraction(1, 3)) * a.constant(3), a),
}
# What looks like one, and holds for some numbers alone.
FALSE: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "root of a square": lambda a, b: ((a * a).sqrt(), a),
    "root of a product": lambda a, b: ((a * b).sqrt(), a.sqrt() * b.sqrt()),
    "absolute": lambda a, b: (OPERATORS["abs"](a), a),
    "triangle": lambda a, b: (OPERATORS["abs"](a + b), OPERATORS["abs"](a) + OPERATORS["abs"](b)),
    "greater": lambda a, b: (OPERATORS["maximum"](a, b), a),
    "sine of a sum": lambda a, b: (
        OPERATORS["erf"](a + b),
        OPERATORS["erf"](a) + OPERATORS["erf"](b),
    ),
    "logarithm of a sum": lambda a, b: ((a + b).log().exp(), a * b),
}
# A function and its derivative, as residues.
SLOPES: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "exp": lambda x: (x.exp(), x.exp()),
    "log": lambda x: (x.log(), x.reciprocal()),
    "sqrt": lambda x: (x.sqrt(), (x.sqrt() + x.sqrt()).reciprocal()),
    "reciprocal": lambda x: (x.reciprocal(), -(x.reciprocal() * x.reciprocal())),
    "tanh": lambda x: (
        OPERATORS["tanh"](x),
        x.constant(1) - OPERATORS["tanh"](x) * OPERATORS["tanh"](x),
    ),
    "sigmoid": lambda x: (
        OPERATORS["sigmoid"](x),
        OPERATORS["sigmoid"](x) * (x.constant(1) - OPERATORS["sigmoid"](x)),
    ),
    "cube": lambda x: (OPERATORS["pow"](x, 3), x.constant(3) * x * x),
    "atan": lambda x: (OPERATORS["atan"](x), (x * x + x.constant(1)).reciprocal()),
}


def same(one: Residues, other: Residues) -> Any:
    """Where two numbers are the same, of each tower."""
    parts = [np.zeros_like(one.re) if part is None else part for part in (one.im, other.im)]
    return ((one.re == other.re) & (parts[0] == parts[1]))[:, 0].reshape(len(one.re), -1).all(1)


@pytest.mark.parametrize("name", TRUE)
def test_an_identity_holds_in_every_field(name: str) -> None:
    """As it does for reals."""
    field = Field(8, 1)
    assert same(*TRUE[name](field.free(SHAPE), field.free(SHAPE))).all()


@pytest.mark.parametrize("name", FALSE)
def test_what_holds_for_some_numbers_fails_in_many_fields(name: str) -> None:
    """One of both values is drawn, for each number."""
    field = Field(64, 1)
    assert not same(*FALSE[name](field.free((1,)), field.free((1,)))).all()


@pytest.mark.parametrize("name", SLOPES)
def test_derivatives_are_those_of_the_function(name: str) -> None:
    """By each entry, and by no other."""
    field = Field(8, 1)
    size = int(np.prod(SHAPE))
    x = field.free(SHAPE, np.eye(size, dtype=np.uint64).reshape(size, *SHAPE))
    value, slope = SLOPES[name](x)
    assert value.d is not None
    wanted = np.zeros((8, size, size), np.uint64)
    wanted[:, range(size), range(size)] = slope.re[:, 0].reshape(8, size)
    assert (value.d.reshape(8, size, size) == wanted).all()


@pytest.mark.parametrize("seed", range(3))
def test_a_tower_is_of_primes_that_divide_one_another_less_one(seed: int) -> None:
    """And each is 3 modulo 4, below 2^31."""
    primes = tower_of(np.random.default_rng(seed))
    assert all(map(is_prime, primes)) and {prime % 4 for prime in primes} == {3}
    assert all((one - 1) % other == 0 for one, other in pairwise(primes))
    assert primes[0] < 2**31


def test_small_numbers_are_prime_or_not() -> None:
    """As trial division says."""
    trial = [n for n in range(2, 2000) if all(n % d for d in range(2, int(n**0.5) + 1))]
    assert [n for n in range(2000) if is_prime(n)] == trial


def test_nothing_is_divided_by_zero() -> None:
    """It would be any number."""
    field = Field(2, 1)
    x = field.free(SHAPE)
    with pytest.raises(NotModelled, match="divided by zero"):
        (x - x).reciprocal()


@pytest.mark.parametrize(
    ("value", "read"),
    [(0.1, "1/10"), (0.6931471805599453, "log 2"), (-1.0986122886681098, "log 1/3")],
)
def test_a_number_in_code_is_read_where_that_is_said(value: float, read: str) -> None:
    """By default it is the double that it is."""
    field = Field(2, 1)
    field.literal(value)
    assert not field.conditions
    decimal = Field(2, 1, decimal=True)
    decimal.literal(value)
    assert list(decimal.conditions) == [f"{value!r} is read as {read}"]
