"""One map in both modes: where training does not change what forward computes, it changes nothing
else.
"""

from __future__ import annotations

import numpy as np

from flowref.laws.common.arithmetic import finite_rows, inside, reported, rows_max
from flowref.laws.common.requirements import exact_log_det
from flowref.model import EXACT, Array, Batch, Mapped, Residual, Unsupported, law, requires
from flowref.model.abilities import Bijection, Flow, Invertible

# The same computation may be grouped differently in the two modes: this many units in the last
# place are no difference.
SLACK = 64 * 2.0**-53


@requires("it has no modes")
def has_modes(flow: Flow) -> bool:
    """Only modules have modes."""
    return flow.stateful


def in_training(flow: Flow, which: str, batch: Batch, x: Array) -> Mapped:
    """A call in train mode; a call that is refused there is no finding."""
    try:
        return flow.calls[which].under(x, batch.context, how="train")
    except Exception as error:
        raise Unsupported(
            f"its {which} is refused in train mode: {type(error).__name__}"
        ) from error


def unchanged(first: Array, second: Array) -> Array:
    """Where two outcomes of forward are the same value bit for bit; not applicable where they
    nowhere are.
    """
    same = np.zeros(len(first), dtype=bool)
    if first.shape == second.shape:
        same = (first == second).reshape(len(first), -1).all(1)
    if not same.any():
        raise Unsupported("training changes the map itself")
    return same


def beyond(difference: Array, size: Array) -> Array:
    """How far a difference exceeds a few units in the last place; nan stays nan."""
    excess = np.abs(difference) - SLACK * size.reshape(-1, *[1] * (difference.ndim - 1))
    return np.where(excess > 0, excess, 0.0 * excess)


@law(
    "mode/train-log-det",
    applies=has_modes & exact_log_det,
    tolerance=EXACT,
    effort=4,
    scales=(0.0, 0.3, 1.0),
)
def train_log_det(flow: Bijection, batch: Batch) -> Residual:
    """Where forward returns the same value in train and in eval mode, it returns the same log-det."""
    calm = flow.forward(batch.x, batch.context)
    training = in_training(flow, "forward", batch, batch.x)
    same = unchanged(calm.value, training.value)
    first, second = reported(flow, calm, len(batch.x)), reported(flow, training, len(batch.x))
    return Residual(
        beyond(first - second, 4 + np.where(np.isfinite(first), np.abs(first), 0.0)),
        decidable=same & finite_rows(calm.value, first),
        observed={"in eval mode": first, "in train mode": second},
    )


@law(
    "mode/train-inverse",
    applies=has_modes & exact_log_det,
    tolerance=EXACT,
    effort=4,
    scales=(0.0, 0.3, 1.0),
)
def train_inverse(flow: Invertible, batch: Batch) -> Residual:
    """Where forward returns the same value in train and in eval mode, so does inverse."""
    calm = flow.forward(batch.x, batch.context)
    training = in_training(flow, "forward", batch, batch.x)
    same = unchanged(calm.value, training.value)
    z, usable = inside(flow, calm.value)
    first = flow.inverse(z, batch.context)
    second = in_training(flow, "inverse", batch, z + 0.0)
    return Residual(
        beyond(first.value - second.value, rows_max(z) + rows_max(first.value)),
        decidable=same & usable & finite_rows(first.value),
        observed={"in eval mode": first.value, "in train mode": second.value},
    )
