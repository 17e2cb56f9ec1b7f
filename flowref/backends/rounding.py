"""Whether an operation has rounded, judged by its inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

# Relative change of float32 results, to see whether they affect a float64 one.
PROBE = 2.0**-18


def ordinary_numbers(shape: Any, generator: np.random.Generator) -> Any:
    """Draws numbers of magnitude 1/8 to 4, log-uniform, of either sign."""
    size = 2 ** generator.uniform(-3, 2, shape)
    return size * generator.choice((-1.0, 1.0), shape)


def unrounded(given: Sequence[Any], results: Sequence[Any]) -> bool:
    """Whether each finite result equals one of the inputs up to its sign and a power of two, or is
    an integer. ``given``: arrays of random numbers, from which no other such number is computed
    without rounding.
    """
    wide = np.concatenate([np.zeros(0), *(np.ravel(one) for one in given)])
    known = np.abs(np.frexp(np.concatenate([wide, wide.astype(np.float32)]))[0])
    found = np.concatenate([np.zeros(0), *(np.ravel(one) for one in results)])
    finite = found[np.isfinite(found)]
    mantissas = np.abs(np.frexp(finite)[0])
    exact = np.isin(mantissas, known) | (mantissas == 0.5) | (np.trunc(finite) == finite)
    return bool(exact.all())
