"""Three doubts before an accusation: whether it is rounding after all, whether the point is a kink,
what a second oracle says.

Whatever a doubt leaves open is undecided, which is counted and shown, and accuses nobody.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flowref.checking.doubts import (
    built_again,
    leaks,
    without_half_precision_violations,
    without_kink_violations,
)
from flowref.checking.judgement import HELD, UNDECIDED, VIOLATED, Judgement
from flowref.checking.measurement import DOUBLE, FINE, SINGLE
from flowref.checking.steps import excused
from flowref.checking.tolerance import (
    CONFIRM_REPLICAS,
    FINE_REPLICAS,
    SECOND_REPLICAS,
    affordable_replicas,
    far_beyond,
    judge,
    vast,
)
from flowref.model import ROUNDING, Array

# Doubts are costly: they are tried on this many rows first.
FOREMOST = 3
# float32 arithmetic inside a float64 subject is judged at float32's roundoff, twice as gently.
SINGLE_INSIDE = replace(SINGLE, factor=2 * SINGLE.factor)


def review(judgement: Judgement) -> Judgement:
    """What is left of the violations of a judgement: on the rows that violate most, where these
    show the violation by themselves and keep it, and on the whole batch otherwise.
    """
    measurement = judgement.measurement
    if (
        measurement.law.tolerance == ROUNDING
    ):  # the whole batch at once: it is rarely another object
        judgement = built_again(judgement)
    violating = np.flatnonzero(judgement.violated)
    few = len(measurement.batch.x) <= FOREMOST
    if measurement.law.tolerance != ROUNDING or not len(violating):
        return confirm(judgement)
    judgement = _by_steps(judgement)
    if few or judgement.acquitted:
        return confirm(judgement)
    margin = np.nan_to_num(judgement.margin[violating], nan=np.inf)
    foremost = np.sort(violating[np.argsort(-margin, kind="stable")[:FOREMOST]])
    try:
        alone = judge(measurement.rows(foremost))
        confirmed = confirm(alone)
    except Exception:  # what happens with fewer rows says nothing about the batch
        return confirm(judgement)
    if confirmed.accuses:
        return confirmed
    if confirmed.acquitted:
        outcome = np.where(judgement.violated, UNDECIDED, judgement.outcome)
        return replace(judgement, outcome=outcome, reason=confirmed.reason, acquitted=True)
    # A point that violates without the other rows as well, and is dismissed there, need not be
    # dismissed again.
    outcome = judgement.outcome.copy()
    outcome[foremost[alone.violated]] = confirmed.outcome[alone.violated]
    return confirm(judgement.with_outcome(outcome, confirmed.reason))


def confirm(judgement: Judgement) -> Judgement:
    """What is left of the violations of a judgement after each doubt in turn: the precision that
    the target really has, the points beside, more noise, a second oracle.
    """
    measurement = judgement.measurement
    if not judgement.accuses or measurement.law.tolerance != ROUNDING:
        return judgement
    if measurement.moved:  # points may be outside every valid set there
        infinite = judgement.violated & ~np.isfinite(measurement.size)
        judgement = judgement.with_outcome(np.where(infinite, UNDECIDED, judgement.outcome))
        if not judgement.accuses:
            return judgement
    if measurement.precision == DOUBLE and leaks(
        measurement.subject, measurement.batch, measurement.law
    ):
        judgement = _at_single(judgement)
    if measurement.law.local:
        judgement = without_kink_violations(judgement)
        judgement = without_half_precision_violations(judgement) if judgement.accuses else judgement
    if not judgement.accuses:
        return judgement
    return _second_oracle(_more_noise(judgement))


def _at_single(judgement: Judgement) -> Judgement:
    """The judgement at float32's roundoff, of the points that violate at float64's:
    `dtype/follows` reports that there is float32 inside.
    """
    again = judge(judgement.measurement.at(SINGLE_INSIDE))
    new = again.violated & ~judgement.violated
    return replace(again, outcome=np.where(new, UNDECIDED, again.outcome))


def _more_noise(judgement: Judgement) -> Judgement:
    """The violations that many more runs confirm, with noise of their own."""
    measurement, suspected = judgement.measurement, judgement.violated
    subject = measurement.subject
    fine = np.ones(len(suspected), dtype=bool)
    if not vast(subject):  # there the full number is no larger
        confirmed = judge(measurement, SECOND_REPLICAS, "second")
        if (suspected & confirmed.violated).any():
            fine = _finely(confirmed)
        left = suspected & confirmed.violated & fine
    if vast(subject) or (left & ~far_beyond(confirmed)).any():
        confirmed = judge(measurement, affordable_replicas(CONFIRM_REPLICAS, subject), "confirm")
        if vast(subject) and (suspected & confirmed.violated).any():
            fine = _finely(confirmed)
    outcome = np.where(suspected, UNDECIDED, judgement.outcome)
    outcome = np.where(suspected & confirmed.violated & fine, VIOLATED, outcome)
    outcome = np.where(suspected & (confirmed.outcome == HELD), HELD, outcome)
    return confirmed.with_outcome(outcome)


def _finely(judgement: Judgement) -> Array:
    """Which violations noise of nearly the size of rounding itself leaves: where errors grow until
    they saturate, amplified noise saturates too and looks small when it is scaled back.
    """
    measurement = judgement.measurement
    if measurement.precision != DOUBLE:
        return np.ones(len(judgement.outcome), dtype=bool)
    replicas = affordable_replicas(FINE_REPLICAS, measurement.subject)
    fine = judge(measurement.at(FINE), replicas, "fine").violated
    if judgement.isolated is not None:  # noise that small does not leave a point
        fine = fine | judgement.isolated
    return np.asarray(fine)


def _second_oracle(judgement: Judgement) -> Judgement:
    """The violations, unless more steps of a solver let the worst of them fall, or the law's second
    oracle doubts it.
    """
    measurement = judgement.measurement
    law, worst = measurement.law, judgement.worst()
    if not judgement.accuses:
        return judgement
    point = measurement.batch.rows(slice(worst, worst + 1))
    doubt = excused(measurement, worst)
    if not doubt and law.arbitrate is not None:
        _, doubt = law.arbitrate(measurement.subject, point)
    return _doubted(judgement, doubt)


def _by_steps(judgement: Judgement) -> Judgement:
    """The violations, unless more steps of a solver let the worst of them fall: asked first, since a
    call of a solver takes long, and each of the other doubts takes dozens of them under noise.
    """
    measurement, worst = judgement.measurement, judgement.worst()
    return _doubted(judgement, excused(measurement, worst))


def _doubted(judgement: Judgement, doubt: str) -> Judgement:
    """The judgement, in which a doubt leaves all violations undecided."""
    if not doubt:
        return judgement
    outcome = np.where(judgement.violated, UNDECIDED, judgement.outcome)
    return replace(judgement, outcome=outcome, reason=doubt, acquitted=True)
