"""Whether an operation has rounded, by the numbers that it was given and those it returned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

# Results in single precision are moved by this much to see whether they feed one in double precision.
PROBE = 2.0**-18


def ordinary_numbers(shape: Any, generator: np.random.Generator) -> Any:
    """Numbers of both signs, below and above one."""
    size = 2 ** generator.uniform(-3, 2, shape)
    return size * generator.choice((-1.0, 1.0), shape)


def unrounded(given: Sequence[Any], results: Sequence[Any]) -> bool:
    """Whether each finite result is one of the numbers given, up to its sign and a power of two, or a
    whole number. ``given``: arrays of numbers drawn at random, of which no other one is made without
    rounding.
    """
    wide = np.concatenate([np.zeros(0), *(np.ravel(one) for one in given)])
    known = np.abs(np.frexp(np.concatenate([wide, wide.astype(np.float32)]))[0])
    found = np.concatenate([np.zeros(0), *(np.ravel(one) for one in results)])
    finite = found[np.isfinite(found)]
    mantissas = np.abs(np.frexp(finite)[0])
    exact = np.isin(mantissas, known) | (mantissas == 0.5) | (np.trunc(finite) == finite)
    return bool(exact.all())
