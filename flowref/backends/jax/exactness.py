"""Where a floating-point operation is exact: products with powers of two, sums with zero, sums of
integers and of one term.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


def trivial_sum(equation: Any) -> bool:
    """Whether an equation is a sum over one term."""
    if equation.primitive.name != "reduce_sum":
        return False
    shape = equation.invars[0].aval.shape
    return bool(math.prod(shape[axis] for axis in equation.params["axes"]) == 1)


def without_error(name: str, plain: Sequence[Any]) -> Any:
    """Where an operation is exact, according to constants of the program (None for other
    arguments): sums with zero and of integers, products with and quotients by powers of two.
    Returns True if everywhere, a mask, or None if nowhere.

    Entries known only at run time count as rounding.
    """
    if any(value is not None and value.dtype.kind not in "fiu" for value in plain):
        return None
    exact: Any = False
    if name in ("add", "sub", "add_any"):
        for value in plain:
            exact = exact if value is None else exact | (value == 0)
        if all(value is not None for value in plain):
            first, second = plain
            exact = exact | ((np.trunc(first) == first) & (np.trunc(second) == second))
    elif name == "mul":
        for value in plain:
            exact = exact if value is None else exact | _power_of_two(value)
    elif name == "div" and plain[1] is not None:
        exact = _power_of_two(plain[1])
    if not np.any(exact):
        return None
    return True if np.all(exact) else exact


def _power_of_two(value: Any) -> Any:
    """A mask of powers of two and 0."""
    return np.isin(np.abs(np.frexp(value)[0]), (0.0, 0.5))
