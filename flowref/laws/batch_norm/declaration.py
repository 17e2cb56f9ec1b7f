"""Declaration of batch normalization laws, and the residual of a whole batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from flowref.laws.batch_norm.channels_first import channels_first
from flowref.model import ADVICE, EXACT, GIVEN, Array, Batch, Law, Requirement, Residual, law
from flowref.model.law import Measure


def batch_norm_law(law_id: str, *, effort: int = 4, **details: Any) -> Callable[[Measure], Law]:
    """Declare a law of whole batches: one residual per batch, drawn by the law, of the normalizer
    with its channels first.
    """
    if (applies := details.get("applies")) is not None:
        details["applies"] = Requirement(_Viewed(applies), applies.otherwise)
    declare = law(law_id, size=1, local=False, effort=effort, **details)
    return lambda measure: declare(_given_channels_first(measure))


@dataclass(frozen=True)
class _Viewed:
    """A requirement evaluated on the normalizer with its channels first."""

    requirement: Requirement

    def __call__(self, flow: Any) -> bool:
        self.requirement.demand(channels_first(flow))
        return True


def _given_channels_first(measure: Measure) -> Measure:
    @functools.wraps(measure)
    def measured(flow: Any, batch: Batch) -> Residual:
        return measure(channels_first(flow), batch)

    return measured


# Advice that does not depend on the batch or the parameters.
batch_norm_advice = partial(batch_norm_law, force=ADVICE, tolerance=EXACT, effort=1, scales=GIVEN)


def batch_residual(
    value: Array, note: str = "", nats: float | None = None, **numbers: Array | float
) -> Residual:
    """The residual of a whole batch, one column per channel; named numbers show the row that is
    reported. ``nats``: the error of a log-det.
    """
    row = np.asarray(value, dtype=np.float64).reshape(1, -1)
    observed = {
        name.replace("_", " "): np.asarray(number, dtype=np.float64)[None]
        for name, number in numbers.items()
    }
    error = None if nats is None else np.array([nats])
    return Residual(
        row, nats=error, observed=observed, note=note if np.nan_to_num(row, nan=1.0).any() else ""
    )
