"""How laws of batch normalization are declared, and the residual of a whole batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from flowref.model import ADVICE, EXACT, Array, Law, Residual, law
from flowref.model.law import Measure


def batch_norm_law(law_id: str, *, effort: int = 4, **details: Any) -> Callable[[Measure], Law]:
    """Declare a law of whole batches: one residual each, on batches of its own."""
    former = law_id.replace("batch-norm/", "normalisation/")
    return law(law_id, former=former, size=1, local=False, effort=effort, **details)


# Advice that is followed or not, whatever the batch and the parameters.
batch_norm_advice = partial(batch_norm_law, force=ADVICE, tolerance=EXACT, effort=1, scales=(0.0,))


def batch_residual(value: Array, note: str = "", **numbers: Array | float) -> Residual:
    """The residual of a whole batch, one column per channel; named numbers get the row that readers
    look up.
    """
    row = np.asarray(value, dtype=np.float64).reshape(1, -1)
    observed = {
        name.replace("_", " "): np.asarray(number, dtype=np.float64)[None]
        for name, number in numbers.items()
    }
    return Residual(row, observed=observed, note=note if np.nan_to_num(row, nan=1.0).any() else "")
