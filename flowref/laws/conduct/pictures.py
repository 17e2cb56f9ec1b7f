"""Figures of autograd's derivatives next to difference quotients, entry by entry."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowref.model import Array, Batch, Figure, Unsupported, per_point
from flowref.model.figure import JACOBIAN, figure

ENTRIES, STEP = 24, 2.0**-10


def jacobian_gap(flow: Any, batch: Batch) -> Figure:
    """The Jacobian of forward by autograd minus that by differences."""
    true = jacobian_by_differences(batch, lambda x, context: flow.forward(x, context).value)
    count = len(true)
    x = np.repeat(batch.x[:1], count, axis=0)
    context = None if batch.context is None else np.repeat(batch.context[:1], count, axis=0)
    shape = np.shape(flow.forward(x, context).value)
    reported = flow.vjp("forward", x, context, np.eye(count).reshape(shape), None)
    return _figure("autograd minus differences: Jacobian", reported, true)


def log_det_gradient_gap(flow: Any, batch: Batch) -> Figure:
    """The gradient of the log-det by autograd minus that by differences."""
    reported = flow.vjp("forward", batch.x, batch.context, None, np.ones(1))
    true = jacobian_by_differences(batch, lambda x, c: per_point(flow.forward(x, c).ladj, len(x)))
    return _figure("autograd minus differences: gradient of the log-det", reported, true)


def score_gap(flow: Any, batch: Batch) -> Figure:
    """The gradient of the log-density by autograd minus that by differences."""
    reported = flow.vjp("log_prob", batch.x, batch.context, np.ones(1), None)
    true = jacobian_by_differences(batch, lambda x, context: flow.log_prob(x, context))
    return _figure("autograd minus differences: gradient of log p(x)", reported, true)


def jacobian_by_differences(batch: Batch, call: Any) -> Array:
    """The Jacobian of a call at one point, ``(outputs, inputs)``, by extrapolated central
    differences of two steps.
    """
    point = batch.x[0].reshape(-1)
    size = len(point)
    if size > ENTRIES:
        raise Unsupported("too many entries for a picture")
    steps = STEP * (1 + np.abs(point))
    moves = np.diag(steps)
    rows = np.concatenate([point + factor * moves for factor in (1.0, -1.0, 0.5, -0.5)])
    context = None if batch.context is None else np.repeat(batch.context[:1], len(rows), axis=0)
    out = call(rows.reshape(-1, *batch.x.shape[1:]), context)
    values = np.asarray(out, dtype=np.float64).reshape(4, size, -1)
    wide = (values[0] - values[1]) / (2 * steps[:, None])
    narrow = (values[2] - values[3]) / steps[:, None]
    return np.asarray(((4 * narrow - wide) / 3).T)


def _figure(note: str, reported: Array, true: Array) -> Figure:
    matrix = np.asarray(reported, dtype=np.float64).reshape(true.shape)
    return figure(
        JACOBIAN, note, reported=matrix.ravel(), true=true.ravel(), columns=[true.shape[1]]
    )
