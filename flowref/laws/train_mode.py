"""One map in both modes: where training does not change what forward computes, it changes nothing else."""

from __future__ import annotations

import numpy as np

from flowref.laws._arithmetic import finite_rows, latents, reported, rows_max
from flowref.laws.log_det import is_estimator
from flowref.model import Array, Batch, Residual, Subject, Unsupported, law

# Values that agree to this much, relatively, come from the same map; it leaves room for the noise of random rounding.
SAME = 1e-6


def has_modes(subject: Subject) -> str | None:
    """Only modules have modes."""
    return is_estimator(subject) if subject.stateful else "it has no modes"


@law("mode/train-log-det", needs={"forward", "call"}, applies=has_modes, effort=4, scales=(0.0, 0.3, 1.0))
def train_log_det(subject: Subject, batch: Batch) -> Residual:
    """Where forward returns the same value in train and in eval mode, it returns the same log-det."""
    assert subject.forward is not None and subject.call is not None
    calm = subject.forward(batch.x, batch.context)
    training = subject.call("forward", batch.x, batch.context, how="train")
    same = unchanged(calm.value, training.value)
    first, second = reported(subject, calm, len(batch.x)), reported(subject, training, len(batch.x))
    return Residual(
        first - second,
        scale=4 + np.where(np.isfinite(first), np.abs(first), 0.0),
        decidable=same & finite_rows(calm.value, first),
        observed={"in eval mode": first, "in train mode": second},
    )


@law("mode/train-inverse", needs={"forward", "inverse", "call"}, applies=has_modes, effort=4, scales=(0.0, 0.3, 1.0))
def train_inverse(subject: Subject, batch: Batch) -> Residual:
    """Where forward returns the same value in train and in eval mode, so does inverse."""
    assert subject.inverse is not None and subject.forward is not None and subject.call is not None
    calm = subject.forward(batch.x, batch.context)
    training = subject.call("forward", batch.x, batch.context, how="train")
    same = unchanged(calm.value, training.value)
    z = latents(subject, calm.value, batch.context) if subject.codomain is not None else calm.value
    first = subject.inverse(z + 0.0, batch.context)
    try:
        second = subject.call("inverse", z + 0.0, batch.context, how="train")
    except Exception as error:  # an inverse may be refused in train mode
        raise Unsupported(f"its inverse is refused in train mode: {type(error).__name__}") from error
    return Residual(
        first.value - second.value,
        scale=rows_max(z) + rows_max(first.value),
        decidable=same & finite_rows(calm.value, first.value),
        observed={"in eval mode": first.value, "in train mode": second.value},
    )


def unchanged(first: Array, second: Array) -> Array:
    """Where two outcomes of forward are the same value; not applicable where they nowhere are."""
    same = np.zeros(len(first), dtype=bool)
    if first.shape == second.shape:
        same = rows_max(first - second) <= SAME * (1 + rows_max(first))
    if not same.any():
        raise Unsupported("training changes the map itself")
    return same
