"""Whether a map moves points by integers or by whole levels of data, as integer discrete flows do."""

from __future__ import annotations

import numpy as np

from flowref.loading.draft import Draft, Finding
from flowref.model import Array, Subject

# Points, how many steps out they lie, and the tolerance of fractional parts.
ROWS, FAR, SAME = 16, 6, 1e-9
# Steps per unit: integers, and levels of data in [0, 1].
STEPS = (1, 256, 255)
PASSES = {"straight-through": True}
WHOLE = "its points are integers, and gradients pass straight through its rounding"
SAID = "it moves points by whole {}: gradients pass straight through its rounding, and samples are whole"


def stepping(draft: Draft) -> Finding | None:
    """The finding for an integer discrete flow, and for a density of integers that rounds."""
    assert draft.rehearsal is not None
    subject = draft.rehearsal.subject
    if draft.facts.promises.get("whole-numbers"):
        return Finding((), promises=PASSES)
    try:
        found = whole_steps_of(subject)
    except Exception:  # exceptions are reported by laws
        return None
    if found:
        words = "numbers" if found == 1 else f"steps of 1/{found}"
        return Finding((SAID.format(words),), promises={"whole-numbers": True, **PASSES})
    if draft.rehearsal.trip.rounds and samples_whole(subject):
        return Finding((WHOLE,), promises=PASSES)
    return None


def samples_whole(subject: Subject) -> bool:
    """Whether a density draws integers."""
    if subject.forward is not None or subject.sample is None or subject.context_shape is not None:
        return False
    try:
        drawn = np.asarray(subject.sample(ROWS, 3, None), dtype=np.float64)
    except Exception:  # exceptions are reported by laws
        return False
    return bool(drawn.size and (drawn == np.round(drawn)).all() and np.ptp(drawn))


def whole_steps_of(subject: Subject) -> int:
    """The first of `STEPS` whose fractional parts forward permutes, while the integer part varies from
    point to point: a constant shift by one is smooth. 0 if there is none.
    """
    if subject.forward is None or subject.context_shape is not None:
        return 0
    tried = {
        steps: x for steps in STEPS if (x := _points_between_integers(subject, steps)) is not None
    }
    if not tried:
        return 0
    x = np.concatenate([points / steps for steps, points in tried.items()])
    y = np.asarray(subject.forward(x, None).value, dtype=np.float64)
    if y.size != x.size:
        return 0
    images = np.split(y.reshape(len(x), -1), len(tried))
    return next(
        (
            steps
            for (steps, points), image in zip(tried.items(), images, strict=True)
            if _steps(points.reshape(ROWS, -1), steps * image, steps)
        ),
        0,
    )


def _points_between_integers(subject: Subject, steps: int) -> Array | None:
    """Points ``(n, *event)`` between integers in units of 1/steps; None if the domain holds too few."""
    low, high = (steps * end for end in subject.domain.ends)
    low = np.where(np.isfinite(low), np.ceil(low), -FAR * steps)
    high = np.where(np.isfinite(high), np.floor(high), FAR * steps)
    if not np.all(high - low >= 3):
        return None
    rng, shape = np.random.default_rng(3), (ROWS, *subject.event_shape)
    whole: Array = np.floor(low + rng.random(shape) * (high - low))
    return whole + rng.uniform(0.1, 0.9, shape)


def _steps(before: Array, after: Array, steps: int) -> bool:
    if not np.isfinite(after).all():
        return False
    behind = np.sort(after % 1, axis=1) - np.sort(before % 1, axis=1)
    moved = (after - before).sum(1)
    return bool(np.abs(behind).max() <= steps * SAME and np.ptp(moved) > 0.5)
