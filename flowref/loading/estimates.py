"""Experiments on stochastic estimates: is the estimate fixed by a random state, and does it vary between
them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from flowref.adapters.user.solvers import STEPS, within_solver_error
from flowref.loading.draft import Draft, Finding
from flowref.model import Array, Mapped, Subject, draw_points
from flowref.model.steps import Eval, Nudge, Run, Step

# Rows of each call, and its random states: one repeated, then another.
ROWS, STATES = 4, (1, 1, 2)
# Displacement of parameters: with a last layer of zeros an estimated log-det does not vary.
MOVED = 0.1


def states(draft: Draft) -> Finding | None:
    """How an estimate depends on the random state.

    ``held``: repeated calls in one state return the same estimate. ``drawn``: log-dets (log-densities
    without a map) differ between states and values do not, as built or with moved parameters. Neither is
    reported if a call raises.
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
    except Exception:  # reported where it is audited
        return None
    shown = {"held": all(one.held for one in seen)}
    shown["drawn"] = shown["held"] and any(one.drawn for one in seen)
    shown["drawn"] &= not any(one.moves for one in seen)
    return Finding((), promises={name: True for name, value in shown.items() if value})


class Seen(NamedTuple):
    """Results of a call: ``(same estimate in one state, other estimate in another, other values in
    another)``.
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
    """The values ``(n, *event)`` of a call and its estimates: log-dets, or log-densities ``(n,)``."""
    value = np.asarray(out.value, dtype=np.float64)
    if out.ladj is None:
        return (value, np.zeros(0)) if value.ndim > 1 else (np.zeros(0), value)
    return value, np.asarray(out.ladj, dtype=np.float64)


def _equal_estimates(one: Array, other: Array) -> bool:
    return np.array_equal(one, other, equal_nan=True)
