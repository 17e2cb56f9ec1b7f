"""Running statistics over some batches, against the course that the nearest known convention gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowref.laws.batch_norm.averaging import (
    AVERAGE,
    EXPLAINS,
    KEEP,
    NEW,
    UNKNOWN,
    Convention,
    History,
    explained,
    fractions,
    gaps,
    trained,
    updated,
)
from flowref.laws.batch_norm.channels_first import channels_first
from flowref.laws.batch_norm.normalizer import Running, random_batch
from flowref.model import Batch, Figure, Unsupported
from flowref.model.figure import COURSE, figure

SIZES = (5, 11, 3, 8, 6, 9, 4, 12)


def course(flow: Any, batch: Batch) -> Figure:
    """The running mean, or variance, of the channel that is farthest from its course: what is
    recorded before the first batch and after each, and what should be, from the same start.
    """
    normalizer = channels_first(flow)
    rng = np.random.default_rng(batch.seed)
    history = trained(normalizer, [random_batch(normalizer, rng, rows) for rows in SIZES])
    convention = nearest(history)
    shares = np.nan_to_num(fractions(convention.momentum, history), nan=0.0)
    runs = {"running mean": [], "running variance": []}  # type: dict[str, list[tuple[Any, Any]]]
    mean, var = (np.asarray(value) for value in history.parameters[0].running)
    for at, state in enumerate(history.parameters):
        runs["running mean"].append((state.running.mean, mean))
        runs["running variance"].append((state.running.var, var))
        if at < len(history.batches):
            mean, var = updated(Running(mean, var), history.batches[at], convention, shares[at])
    courses = [
        (name, channel, values[:, :, channel])
        for name, run in runs.items()
        for values in [np.asarray(run, dtype=np.float64)]
        for channel in range(values.shape[2])
    ]
    if not courses:
        raise Unsupported("it keeps no running statistics")
    name, channel, values = max(courses, key=lambda one: _apart(one[2]))
    if _apart(values) < EXPLAINS:
        raise Unsupported("what is wrong is not seen in the course of the statistics")
    return figure(
        COURSE,
        f"{name}, channel {channel}",
        recorded=values[:, 0],
        expected=values[:, 1],
    )


def nearest(history: History) -> Convention:
    """The convention that explains most of a history; one that is fitted to each batch only where it
    explains all of it, or where there is no other.
    """
    best, gap = explained(history)
    if gap.max() < EXPLAINS:
        return best
    kinds = (NEW, KEEP) if history.parameters[0].momentum is not None else (AVERAGE, UNKNOWN)
    found = [Convention(kind, freedom) for kind in kinds for freedom in (1, 0)]
    scores = [float(np.minimum(gaps(history, one), 1.0).mean()) for one in found]
    best_at = int(np.argmin(scores))
    # Torch's, unless another one explains far more.
    return found[best_at] if scores[best_at] < scores[0] / 2 else found[0]


def _apart(values: Any) -> float:
    """How far the course is from the other, relative to what moves."""
    gap = np.abs(values[:, 0] - values[:, 1]).max()
    return float(np.nan_to_num(gap / (np.abs(values).max() + 1e-300), nan=np.inf))
