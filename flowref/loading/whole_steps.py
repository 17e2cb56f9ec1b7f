"""Whether a map moves points by whole numbers, as integer discrete flows do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flowref.model import Facts, Subject

# Points that are tried, how far out, and how near the parts behind the point must be to the same.
ROWS, FAR, SAME = 16, 6, 1e-9
SAID = "it moves points by whole numbers: gradients pass straight through its rounding, and samples are whole"


def stepping(facts: Facts, subject: Subject) -> tuple[Facts, tuple[str, ...]]:
    """Facts of an integer discrete flow, and what is said of it; as they were of all else."""
    if facts.promises.get("whole-numbers"):
        return replace(facts, promises={**facts.promises, "straight-through": True}), ()
    try:
        if not steps_whole(subject):
            return facts, ()
    except Exception:  # what a call raises is the laws' affair
        return facts, ()
    promises = {**facts.promises, "whole-numbers": True, "straight-through": True}
    return replace(facts, promises=promises), (SAID,)


def steps_whole(subject: Subject) -> bool:
    """Whether what comes out lies behind the point as what went in does, in some order, and by other whole
    numbers at other points: a shift by one, the same everywhere, is as smooth as any.
    """
    low, high = subject.domain.ends
    if subject.forward is None or subject.context_shape is not None:
        return False
    low = np.where(np.isfinite(low), np.ceil(low), -FAR)
    high = np.where(np.isfinite(high), np.floor(high), FAR)
    if not np.all(high - low >= 3):
        return False
    rng = np.random.default_rng(3)
    shape = (ROWS, *subject.event_shape)
    whole = np.floor(low + rng.random(shape) * (high - low))
    x = whole + rng.uniform(0.1, 0.9, shape)
    y = np.asarray(subject.forward(x + 0.0, None).value, dtype=np.float64)
    if y.size != x.size or not np.isfinite(y).all():
        return False
    before, after = x.reshape(ROWS, -1), y.reshape(ROWS, -1)
    behind = np.sort(after % 1, axis=1) - np.sort(before % 1, axis=1)
    steps = (after - before).sum(1)
    return bool(np.abs(behind).max() <= SAME and np.ptp(steps) > 0.5)
