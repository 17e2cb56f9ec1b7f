"""Signs known from comparisons: x is positive where it is selected because it is larger than 20."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from flowref.proving.exact.residues import Residues
from flowref.proving.numbers import ABOVE, BELOW, NEGATIVE, POSITIVE, UNKNOWN

# Numbers with their known signs.
Signs = Sequence[tuple[Residues, int]]


def ordered(larger: Any, smaller: Any, *, strict: bool) -> tuple[Signs, Signs]:
    """The signs known where a comparison is true, and where it is false: then ``smaller`` is as
    large or larger.

    ``strict``: for >, where equal numbers make the comparison false.
    """
    return _difference(larger, smaller, strict=strict), _difference(
        smaller, larger, strict=not strict
    )


def _difference(larger: Any, smaller: Any, *, strict: bool) -> Signs:
    """The signs of two numbers, the first larger than the second, or as large."""
    found = []
    if isinstance(larger, Residues) and (low := _smallest_sign(smaller)) >= ABOVE:
        found.append((larger, POSITIVE if strict or low == POSITIVE else ABOVE))
    if isinstance(smaller, Residues) and (high := -_smallest_sign(larger, -1)) <= BELOW:
        found.append((smaller, NEGATIVE if strict or high == NEGATIVE else BELOW))
    return found


def _smallest_sign(value: Any, turn: int = 1) -> int:
    """The smallest known sign of a number, or of its negative."""
    if isinstance(value, Residues):
        return int((turn * value.signs).min(initial=POSITIVE))
    numbers = turn * np.asarray(value)
    return POSITIVE if (numbers > 0).all() else ABOVE if (numbers >= 0).all() else UNKNOWN


def signed(value: Any, known: Signs) -> Any:
    """A number with its known sign, if it or its negative is among the known ones."""
    for number, sign in known if isinstance(value, Residues) else ():
        for same, own in ((number, sign), (-number, -sign)):
            if _equal_residues(value, same):
                merged = np.where(abs(value.signs) > abs(own), value.signs, own)
                return replace(value, sign=merged.astype(np.int8))
    return value


def _equal_residues(one: Residues, other: Residues) -> bool:
    return one.shape == other.shape and all(
        first is second is None
        or (first is not None and second is not None and np.array_equal(first, second))
        for first, second in zip(one.pair, other.pair, strict=True)
    )
