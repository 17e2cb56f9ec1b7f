"""Intervals that contain real numbers: pairs of arrays, with ends rounded outward.

The zero interval times any interval is zero, and adding it changes nothing: so a derivative by an
input that has no influence is exactly zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

# Lower and upper end.
Ends = tuple[Any, Any]
# Half of the distance from one to the next float64 number.
UNIT = 2.0**-53
# Smaller values of a function may be computed as zero: torch's sigmoid is 0 below -709.
LOST = 1e-307
# Allowed error of numpy's functions in units in the last place: at most three are measured.
OWN = 4


def gamma(terms: Any) -> Any:
    """The error bound of a sum of so many terms, in any order, fused or not, relative to the sum
    of their sizes (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.1);
    zero for one.
    """
    return 1.01 * np.maximum(terms, 0) * UNIT


def down(x: Any) -> Any:
    """The next float below."""
    return np.nextafter(x, -np.inf)


def up(x: Any) -> Any:
    """The next float above."""
    return np.nextafter(x, np.inf)


def zero(a: Ends) -> Any:
    """A mask of exact zeros."""
    return (a[0] == 0) & (a[1] == 0)


def magnitude(a: Ends) -> Any:
    """The largest absolute value."""
    return np.maximum(np.abs(a[0]), np.abs(a[1]))


def smallest(a: Ends) -> Any:
    """The smallest absolute value."""
    return np.maximum(np.maximum(a[0], -a[1]), 0.0)


def hull(a: Ends, b: Ends) -> Ends:
    """The smallest interval that contains both."""
    return np.minimum(a[0], b[0]), np.maximum(a[1], b[1])


def negative(a: Ends) -> Ends:
    """-a."""
    return -a[1], -a[0]


def plus(a: Ends, b: Ends) -> Ends:
    """a + b."""
    low, high, exact = a[0] + b[0], a[1] + b[1], zero(a) | zero(b)
    return np.where(exact, low, down(low)), np.where(exact, high, up(high))


def times(a: Ends, b: Ends) -> Ends:
    """ab. A corner 0 times infinity is ignored."""
    corners = [x * y for x in a for y in b]
    low, high = np.fmin.reduce(corners), np.fmax.reduce(corners)
    nothing = zero(a) | zero(b)
    return np.where(nothing, 0.0, down(low)), np.where(nothing, 0.0, up(high))


def optional_sum(*parts: Ends | None) -> Ends | None:
    """The sum of two, either of which may be None."""
    found = [one for one in parts if one is not None]
    return plus(found[0], found[1]) if len(found) == 2 else found[0] if found else None


def square(a: Ends) -> Ends:
    """a^2."""
    high = np.where(zero(a), 0.0, up(magnitude(a) ** 2))
    return np.maximum(down(smallest(a) ** 2), 0.0), high


def reciprocal(a: Ends) -> Ends:
    """1/a; unbounded if a may be zero."""
    low, high = down(1 / a[1]), up(1 / a[0])
    low, high = (
        np.where(a[0] > 0, np.maximum(low, 0), low),
        np.where(a[1] < 0, np.minimum(high, 0), high),
    )
    nonzero = (a[0] > 0) | (a[1] < 0)
    return np.where(nonzero, low, -np.inf), np.where(nonzero, high, np.inf)


def widened_by_ulps(a: Ends, units: float) -> Ends:
    """The interval widened by units in the last place of each end."""
    return (
        down(a[0] - units * np.spacing(np.abs(a[0]))),
        up(a[1] + units * np.spacing(np.abs(a[1]))),
    )


def sum_of_ends(a: Ends) -> Ends:
    """The sum along the last axis."""
    slack = gamma((~zero(a)).sum(-1) - 1)
    slack = np.where(slack > 0, up(2 * slack * magnitude(a).sum(-1)), 0.0)
    low, high = a[0].sum(-1) - slack, a[1].sum(-1) + slack
    return np.where(slack > 0, down(low), low), np.where(slack > 0, up(high), high)


def _middle(a: Ends) -> tuple[Any, Any]:
    middle = np.where(a[0] == a[1], a[0], a[0] / 2 + a[1] / 2)
    return middle, up(np.maximum(middle - a[0], a[1] - middle))


def product(a: Ends, b: Ends) -> Ends:
    """The matrix product, by midpoints and radii (Rump, Fast and parallel interval arithmetic,
    1999).
    """
    open_ends = [~np.isfinite(one[0]) | ~np.isfinite(one[1]) for one in (a, b)]
    a, b = (
        (np.where(bad, 0.0, one[0]), np.where(bad, 0.0, one[1]))
        for one, bad in zip((a, b), open_ends, strict=True)
    )
    (a_mid, a_rad), (b_mid, b_rad) = _middle(a), _middle(b)
    a_rad, b_rad = np.where(a[0] == a[1], 0.0, a_rad), np.where(b[0] == b[1], 0.0, b_rad)
    size = (abs(a_mid) + a_rad) @ (abs(b_mid) + b_rad)
    inner = a_mid.shape[-1]
    off = abs(a_mid) @ b_rad + a_rad @ (abs(b_mid) + b_rad) + 4 * gamma(inner + 2) * size
    off = off * (1 + 4 * gamma(inner + 2)) + inner * 1e-300
    middle = a_mid @ b_mid
    some = [(~zero(one)).astype(float) for one in (a, b)]
    nothing = some[0] @ some[1] == 0
    low, high = np.where(nothing, 0.0, down(middle - off)), np.where(nothing, 0.0, up(middle + off))
    if open_ends[0].any() or open_ends[1].any():
        # An infinite end times exact zero is zero.
        counts = [one.astype(float) for one in open_ends]
        bad = counts[0] @ (some[1] + counts[1]) + (some[0] + counts[0]) @ counts[1] > 0
        low, high = np.where(bad, -np.inf, low), np.where(bad, np.inf, high)
    return low, high


@dataclass(frozen=True)
class Function:
    """An increasing function of a number.

    ``value``: of numpy; ``slope``: an interval of its derivative on an interval; ``low``, ``high``:
    the open interval of definition; ``least``: a lower bound of values, however rounded.
    """

    value: Callable[[Any], Any]
    slope: Callable[[Ends], Ends]
    low: float = -math.inf
    high: float = math.inf
    least: float = -math.inf

    def ends(self, a: Ends, units: float = 0) -> Ends:
        """Its values on an interval, each with an error of so many units in the last place."""
        inside = (a[0] > self.low) & (a[1] < self.high)
        low, high = widened_by_ulps((self.value(a[0]), self.value(a[1])), OWN + units)
        lost = np.where(smallest((low, high)) < LOST, LOST, 0.0) * (units > 0)
        low, high = low - lost, high + lost
        return np.where(inside, np.maximum(low, self.least), -np.inf), np.where(
            inside, high, np.inf
        )


def cosh(a: Ends, units: float = 0) -> Ends:
    """Hyperbolic cosines."""
    return widened_by_ulps((np.cosh(smallest(a)), np.cosh(magnitude(a))), OWN + units)


def _sech_squared(a: Ends) -> Ends:
    r"""The derivative of tanh, $1 / \cosh^2$."""
    return reciprocal(square(cosh(a)))


def _one_minus_square(a: Ends) -> Ends:
    return plus((1.0, 1.0), negative(square(a)))


def _one_plus_square(a: Ends) -> Ends:
    return plus((1.0, 1.0), square(a))


def _root(a: Ends) -> Ends:
    return widened_by_ulps((np.sqrt(np.maximum(a[0], 0.0)), np.sqrt(a[1])), 1)


def _scaled(a: Ends, by: float) -> Ends:
    """The interval times a positive number that is rounded."""
    return times(a, (float(down(by)), float(up(by))))


def _logistic(x: Any) -> Any:
    grown = np.exp(-np.abs(x))
    return np.where(x < 0, grown, 1.0) / (1.0 + grown)


EXP = Function(np.exp, lambda a: widened_by_ulps((np.exp(a[0]), np.exp(a[1])), OWN), least=0.0)

# By their names in ATen.
INCREASING = {
    "exp": EXP,
    "exp2": Function(
        np.exp2,
        lambda a: _scaled(widened_by_ulps((np.exp2(a[0]), np.exp2(a[1])), OWN), math.log(2)),
        least=0.0,
    ),
    "expm1": Function(np.expm1, EXP.ends),
    "log": Function(np.log, reciprocal, low=0.0),
    "log2": Function(np.log2, lambda a: _scaled(reciprocal(a), 1 / math.log(2)), low=0.0),
    "log1p": Function(np.log1p, lambda a: reciprocal(plus((1.0, 1.0), a)), low=-1.0),
    "tanh": Function(np.tanh, _sech_squared),
    "sigmoid": Function(
        _logistic, lambda a: _scaled(_sech_squared((a[0] / 2, a[1] / 2)), 0.25), least=0.0
    ),
    "sinh": Function(np.sinh, cosh),
    "asinh": Function(np.arcsinh, lambda a: reciprocal(_root(_one_plus_square(a)))),
    "atanh": Function(np.arctanh, lambda a: reciprocal(_one_minus_square(a)), low=-1.0, high=1.0),
    "atan": Function(np.arctan, lambda a: reciprocal(_one_plus_square(a))),
    "asin": Function(
        np.arcsin, lambda a: reciprocal(_root(_one_minus_square(a))), low=-1.0, high=1.0
    ),
    "erf": Function(
        np.vectorize(math.erf, otypes=[float]),
        lambda a: _scaled(EXP.ends(negative(square(a))), 2 / math.sqrt(math.pi)),
    ),
}
