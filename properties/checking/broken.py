"""Pieces of the judging room that are wrong, each in its own way: what the properties must catch."""

from __future__ import annotations

import numpy as np

from flowref.checking.judgement import UNDECIDED, VIOLATED, Judgement
from flowref.checking.measurement import Measurement
from flowref.checking.tolerance import judge


def acquitting(judgement: Judgement) -> Judgement:
    """A review that acquits everybody."""
    outcome = np.where(judgement.violated, UNDECIDED, judgement.outcome)
    return judgement.with_outcome(outcome)


def failing_status(judgement: Judgement) -> Judgement:
    """A review that accuses everybody."""
    return judgement.with_outcome(np.full(len(judgement.outcome), VIOLATED))


def credulous(judgement: Judgement) -> Judgement:
    """A review that believes every suspicion."""
    return judgement


def to_zero(judgement: Judgement) -> Judgement:
    """A shrinker that forgets to ask whether zero violates."""
    batch = judgement.measurement.batch.rows(slice(0, 1))
    measurement = judgement.measurement.again(batch._replace(x=np.zeros_like(batch.x)))
    return _unasked(judgement, measurement)


def out_of_the_support(judgement: Judgement) -> Judgement:
    """A shrinker that rounds without asking where it ends."""
    batch = judgement.measurement.batch
    return _unasked(judgement, judgement.measurement.again(batch._replace(x=np.round(batch.x))))


def to_another_violation(judgement: Judgement) -> Judgement:
    """A shrinker that takes any violation for the one that it was given."""
    batch = judgement.measurement.batch
    return judge(judgement.measurement.again(batch._replace(x=batch.x * 1e-9)))


def idle(judgement: Judgement) -> Judgement:
    """A shrinker that does nothing."""
    return judgement


def _unasked(judgement: Judgement, measurement: Measurement) -> Judgement:
    """Another measurement, with the outcomes of the first."""
    rows = slice(0, len(measurement.batch.x))
    return Judgement(
        measurement, judgement.outcome[rows], judgement.allowed[rows], judgement.explained[rows]
    )
