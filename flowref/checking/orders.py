"""Errors that fall with the steps of a solver, and more slowly than it converges: they are none of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from flowref.checking.measurement import Measurement, measure
from flowref.model import VALUES, VOLUME, Batch, Subject, draw_points
from flowref.model.convergence import TIMES, first_order, higher_order

# Ordinary points at which orders are measured, and their seed: they are those of an object, wherever it is judged.
ROWS, SEED = 8, 1
# What was found of a subject, by law: each row that is judged, and each simpler one, asks for the same.
_found: WeakKeyDictionary[Callable[[int], Any], dict[str, bool]] = WeakKeyDictionary()


def lags(measurement: Measurement) -> bool:
    """Whether the error of a law is of first order in the length of steps, where the maps that it is about
    are of a higher one: a divergence that is taken at another state or time than a method asks for, or a way
    back that takes a step less than the way there.

    Fields that jump leave errors of first order, too, of no common sign. Of two ways of which one is of first order
    the error is that of a simpler method, unless it evaluates its field as often at each step as the other, and a few
    times less, or more, in all.
    """
    refined, key = measurement.subject.refined, measurement.law.key
    if refined is None:
        return False
    known = _found.setdefault(refined, {})
    if key not in known:
        known[key] = _lags(measurement)
    return known[key]


def _lags(measurement: Measurement) -> bool:
    subject, law = measurement.subject, measurement.law
    subjects = [subject]
    for times in TIMES[1:]:
        finer = None if subject.refined is None else subject.refined(times)
        if finer is None:
            return False
        subjects.append(finer)
    batch = _ordinary_batch(measurement)
    errors = [measure(law, one, batch).value for one in subjects]
    if not first_order([np.asarray(error) for error in errors]):
        return False
    orders = [higher_order(values) for values in _values_of_directions(subjects, batch)]
    if law.about == VOLUME:
        return bool(orders) and all(orders)
    return law.about == VALUES and any(orders) and _one_too_few(subjects, batch)


def _ordinary_batch(measurement: Measurement) -> Batch:
    subject = measurement.subject
    x = draw_points(subject.domain, (ROWS, *subject.event_shape), np.random.default_rng(SEED))
    context = measurement.batch.context
    given = None if context is None else np.repeat(context[:1], ROWS, 0)
    return Batch(x, given, measurement.batch.seed)


def _values_of_directions(subjects: list[Subject], batch: Batch) -> list[list[np.ndarray]]:
    """What both ways of each subject lead to, from the same points."""
    z = subjects[0].calls["forward"](batch.x, batch.context).value
    starts = {"forward": batch.x, "inverse": z}
    return [
        [np.asarray(one.calls[which](x + 0.0, batch.context).value) for one in subjects]
        for which, x in starts.items()
        if which in subjects[0].calls
    ]


def _one_too_few(subjects: list[Subject], batch: Batch) -> bool:
    """Whether the ways differ by the same number of operations however many steps they take."""
    z = subjects[0].calls["forward"](batch.x, batch.context).value
    apart = {
        one.calls["forward"].observe(batch.x, batch.context).operations
        - one.calls["inverse"].observe(z + 0.0, batch.context).operations
        for one in subjects[:3]
    }
    return len(apart) == 1 and apart != {0}
