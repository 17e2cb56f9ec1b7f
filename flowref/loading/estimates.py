"""What calls show of an estimate: whether a random state holds it, and whether it is drawn."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from flowref.adapters.user.solvers import STEPS, within_solver_error
from flowref.loading.draft import Draft, Finding
from flowref.model import Array, Mapped, Subject, draw_points
from flowref.model.steps import Eval, Nudge, Run, Step

# Rows of the calls that show it, and the random states that they are made in: one twice, then another.
ROWS, STATES = 4, (1, 1, 2)
# How far parameters are moved: a last layer of zeros has log-dets of which nothing is drawn.
MOVED = 0.1


def states(draft: Draft) -> Finding | None:
    """What random states show of what promises an estimate.

    ``held``: in one of them every call estimates the same again, of one object; values are no part of
    what is promised. ``drawn``: in another one
    log-dets, or log-densities of what has no map, are others, and values are not; as built, where all of
    it may be zero, or with moved parameters. Where a call is refused neither is said.
    """
    assert draft.rehearsal is not None
    facts, subject = draft.facts, draft.rehearsal.subject
    if subject.play is None:
        return None
    rng = np.random.default_rng(2)
    x = draw_points(subject.domain, (ROWS, *subject.event_shape), rng)
    shape = subject.context_shape
    context = None if shape is None else rng.standard_normal((ROWS, *shape))
    begin: list[Step[Any]] = [Eval()] if subject.stateful else []
    lives = [begin]
    if subject.trainable and not facts.promises.get("fixed"):
        lives.append([*begin, Nudge(0, MOVED)])
    try:
        points = {"forward": x} if subject.forward is not None else {"log_prob": x}
        if subject.forward is not None and subject.inverse is not None:
            points["inverse"] = np.asarray(subject.forward(x, context).value) + 0.0
        solver = facts.certainty.log_det
        seen = [
            _observed_estimates(subject, life, Run(which, at, context, draws=0), STEPS * solver)
            for life in lives
            for which, at in points.items()
        ]
    except Exception:  # what it refuses is told where it is audited
        return None
    told = {"held": all(one.held for one in seen)}
    told["drawn"] = told["held"] and any(one.drawn for one in seen)
    told["drawn"] &= not any(one.moves for one in seen)
    return Finding((), promises={name: True for name, value in told.items() if value})


class Seen(NamedTuple):
    """Of a call: whether one random state returns the same estimate twice; whether another one has
    another estimate, and other values.
    """

    held: bool
    drawn: bool
    moves: bool


def _observed_estimates(
    subject: Subject, begin: list[Step[Any]], run: Run, accuracy: float
) -> Seen:
    assert subject.play is not None
    runs = [Run(run.call, *run.inputs, draws=draws) for draws in STATES]
    outs = list(subject.play([*begin, *runs]))[len(begin) :]
    values, estimates = zip(*map(_values_and_estimates, outs), strict=True)
    return Seen(
        _equal_estimates(estimates[0], estimates[1]),
        not _equal_estimates(estimates[0], estimates[2]),
        not _equal_estimates(values[0], values[2])
        and not within_solver_error((values[0], values[2]), (estimates[0], estimates[2]), accuracy),
    )


def _values_and_estimates(out: Mapped) -> tuple[Array, Array]:
    """The values of a call, and what is estimated: the log-det, or the density that has no other."""
    value = np.asarray(out.value, dtype=np.float64)
    if out.ladj is None:
        return (value, np.zeros(0)) if value.ndim > 1 else (np.zeros(0), value)
    return value, np.asarray(out.ladj, dtype=np.float64)


def _equal_estimates(one: Array, other: Array) -> bool:
    return np.array_equal(one, other, equal_nan=True)
