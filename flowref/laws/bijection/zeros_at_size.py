"""Zeros of Jacobians too large to compute: a random cotangent pulls back to zero with probability
one only at a column of zeros; an output that no move of the point changes has a row of zeros.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from flowref.laws.common.arithmetic import TINY, finite_rows, rows_max
from flowref.model import Array, Batch, Mapped, Residual, Undecidable
from flowref.model.abilities import Bijection, Pulling

# Steps relative to 1 + |x|, and the number of cotangents for estimating column norms.
ASIDE, COTANGENTS = 1e-3, 8
# Slack of a log-det above the upper bound, in nats.
SLACK = 10.0
ULP = 2.0**-53


class PullingBijection(Bijection, Pulling, Protocol):
    """A map with vector-Jacobian products."""


def zeros_at_size(flow: PullingBijection, batch: Batch, out: Mapped, claimed: Array) -> Residual:
    """The residual: a log-det above that of any map this flat.

    By Hadamard's inequality the determinant is at most the product of the column norms; below that
    bound the point is undecided.
    """
    value = np.asarray(out.value, dtype=np.float64)
    rows = len(value)
    rng = np.random.default_rng(batch.seed)
    gradient = vjp_rows(flow, batch, rng.standard_normal(value.shape))
    finite = finite_rows(value, claimed) & finite_rows(gradient)
    columns, still = gradient == 0, unmoved(flow, batch, value, rng)
    lies, open_ = np.zeros(rows, dtype=bool), np.zeros(rows, dtype=bool)
    for row in np.flatnonzero(finite & (columns.any(1) | still.any(1))):
        one = batch.rows(slice(row, row + 1))
        if columns[row].any() and columns_move_nothing(flow, one, value[row], columns[row]):
            most = log_det_upper_bound(flow, one, value[row], columns[row], rng)
            lies[row], open_[row] = claimed[row] > most, claimed[row] <= most
        if still[row].any():
            weights = np.where(still[row], rng.standard_normal(still[row].shape), 0.0)
            open_[row] |= not vjp_rows(flow, one, weights.reshape(1, *value.shape[1:])).any()
    open_ &= ~lies
    if finite.any() and (open_ | ~finite).all():
        raise Undecidable(
            "the map is flat in some coordinates, and whether its log-det can be that of what is "
            f"flat by rounding alone is not decided for {columns.shape[1]} entries"
        )
    return Residual(
        lies.astype(float),
        decidable=finite & ~open_,
        observed={"reported": claimed},
        note="the map does not move with a coordinate, and the log-det cannot be that of such a map",
        method="on a random cotangent",
    )


def vjp_rows(flow: PullingBijection, batch: Batch, weights: Array) -> Array:
    """Cotangents ``weights`` of the values pulled back, ``(n, inputs)``."""
    gradient = flow.vjp("forward", batch.x, batch.context, weights, None)
    return np.asarray(gradient, dtype=np.float64).reshape(len(batch.x), -1)


def steps_in_domain(flow: Bijection, x: Array) -> Array:
    """One step per coordinate that stays inside the domain, ``(n, *event)``."""
    low, high = flow.domain.ends
    flat = x.reshape(len(x), -1)
    room = np.minimum(flat - low, high - flat) / 2
    return np.asarray(np.clip(ASIDE * (1 + np.abs(flat)), 0.0, np.maximum(room, 0.0)))


def images_of_moved_points(flow: Bijection, batch: Batch, step: Array) -> Array:
    """Images of the points moved by ``step``, ``(n, outputs)``."""
    there = (batch.x.reshape(len(step), -1) + step).reshape(batch.x.shape)
    return np.asarray(flow.forward(there, batch.context).value, dtype=np.float64).reshape(
        len(step), -1
    )


def unmoved(flow: Bijection, batch: Batch, value: Array, rng: np.random.Generator) -> Array:
    """The outputs that are bitwise constant on either side of a point, ``(n, outputs)``."""
    step = steps_in_domain(flow, batch.x)
    step = step * rng.choice((-1.0, 1.0), step.shape)
    here = value.reshape(len(value), -1)
    return np.asarray(
        (images_of_moved_points(flow, batch, step) == here)
        & (images_of_moved_points(flow, batch, -step) == here)
    )


def columns_move_nothing(flow: Bijection, point: Batch, value: Array, columns: Array) -> bool:
    """Whether no output changes as the given coordinates move."""
    step = np.where(columns, steps_in_domain(flow, point.x), 0.0)
    here = value.reshape(1, -1)
    return bool(
        step[:, columns].all()
        and (images_of_moved_points(flow, point, step) == here).all()
        and (images_of_moved_points(flow, point, -step) == here).all()
    )


def log_det_upper_bound(
    flow: PullingBijection, point: Batch, value: Array, columns: Array, rng: np.random.Generator
) -> float:
    """The largest log-det of a map that depends on the given coordinates by rounding only.

    The mean square of the pulled-back random signs estimates the squared column norm; its
    logarithm is biased low by a share of their variance, of which four times as much is added.
    """
    signs = (rng.choice((-1.0, 1.0), (1, *value.shape)) for _ in range(COTANGENTS))
    squares = np.stack([vjp_rows(flow, point, one)[0, ~columns] ** 2 for one in signs])
    mean = np.maximum(squares.mean(0), TINY)
    norms = 0.5 * np.log(mean) + squares.var(0) / mean**2 / COTANGENTS
    rounded = ULP * max(1.0, float(rows_max(value[None])[0])) / ASIDE
    return float(norms.sum() + columns.sum() * np.log(rounded) + SLACK)
