"""Convergence orders: errors that fall with the solver's step, but more slowly than its values
converge, are bugs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from flowref.checking.measurement import Measurement, measure
from flowref.model import VALUES, VOLUME, Batch, Subject, draw_points
from flowref.model.convergence import TIMES, first_order, higher_order

# Number and seed of the ordinary points at which orders are measured, whatever batch is judged.
ROWS, SEED = 8, 1
# Cached result per subject and law: every judged or simplified row needs the same one.
_found: WeakKeyDictionary[Callable[[int], Any], dict[str, bool]] = WeakKeyDictionary()


def lags(measurement: Measurement) -> bool:
    """Whether the error of a law is of first order in the step length while the solver's maps
    converge at a higher order: a divergence evaluated at another state or time than the method's,
    or an inverse that takes one step fewer.

    Fields with jumps also leave first-order errors, but without a common sign. If only one
    direction is of first order, the error is that of a simpler method, unless both evaluate the
    field equally often per step and differ by a constant number of operations. Cached per law and
    subject.
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
    """Values of forward and inverse for each number of steps, from the same points."""
    z = subjects[0].calls["forward"](batch.x, batch.context).value
    starts = {"forward": batch.x, "inverse": z}
    return [
        [np.asarray(one.calls[which](x + 0.0, batch.context).value) for one in subjects]
        for which, x in starts.items()
        if which in subjects[0].calls
    ]


def _one_too_few(subjects: list[Subject], batch: Batch) -> bool:
    """Whether the operation counts of the directions differ by one constant at every number of
    steps.
    """
    z = subjects[0].calls["forward"](batch.x, batch.context).value
    apart = {
        one.calls["forward"].observe(batch.x, batch.context).operations
        - one.calls["inverse"].observe(z + 0.0, batch.context).operations
        for one in subjects[:3]
    }
    return len(apart) == 1 and apart != {0}
