"""Checks before a violation is reported: rounding, a kink at the point, a second oracle.

Points that a check leaves open are undecided, which is counted and shown, and are not reported as
violations.
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
from flowref.checking.solver_errors import solver_error_reason
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

# Checks are expensive: they run on this many rows first.
FOREMOST = 3
# float32 arithmetic inside a float64 subject is judged at float32 roundoff with twice the factor.
SINGLE_INSIDE = replace(SINGLE, factor=2 * SINGLE.factor)


def review(judgement: Judgement) -> Judgement:
    """Return the judgement with the violations that survive all checks: on the worst rows if these
    violate by themselves, otherwise on the whole batch.
    """
    measurement = judgement.measurement
    if (
        measurement.law.tolerance == ROUNDING
    ):  # on the whole batch at once: rebuilding rarely changes the object
        judgement = built_again(judgement)
    violating = np.flatnonzero(judgement.violated)
    few = len(measurement.batch.x) <= FOREMOST
    if measurement.law.tolerance != ROUNDING or not len(violating):
        return confirm(judgement)
    judgement = _without_solver_errors(judgement)
    if few or judgement.acquitted:
        return confirm(judgement)
    margin = np.nan_to_num(judgement.margin[violating], nan=np.inf)
    foremost = np.sort(violating[np.argsort(-margin, kind="stable")[:FOREMOST]])
    try:
        alone = judge(measurement.rows(foremost))
        confirmed = confirm(alone)
    except Exception:  # what happens with fewer rows says nothing about the batch
        return confirm(judgement)
    if confirmed.violates:
        return confirmed
    if confirmed.acquitted:
        outcome = np.where(judgement.violated, UNDECIDED, judgement.outcome)
        return replace(judgement, outcome=outcome, reason=confirmed.reason, acquitted=True)
    # Points that violate alone and are dismissed there need no second dismissal.
    outcome = judgement.outcome.copy()
    outcome[foremost[alone.violated]] = confirmed.outcome[alone.violated]
    return confirm(judgement.with_outcome(outcome, confirmed.reason))


def confirm(judgement: Judgement) -> Judgement:
    """Return the judgement after each check in turn, until no violation is left.

    Only laws of rounding are checked, by:

    1. values that are not finite at perturbed parameters, which may be invalid;
    2. the target's actual precision, if float32 enters a float64 subject;
    3. neighboring points, then half precision, for laws whose violations persist nearby;
    4. more runs with fresh noise, then noise near the size of rounding;
    5. a refined solver, then the law's second oracle.

    A violation that a check leaves open is undecided.
    """
    measurement = judgement.measurement
    if not judgement.violates or measurement.law.tolerance != ROUNDING:
        return judgement
    if measurement.moved:  # perturbed parameters may be invalid
        infinite = judgement.violated & ~np.isfinite(measurement.size)
        judgement = judgement.with_outcome(np.where(infinite, UNDECIDED, judgement.outcome))
        if not judgement.violates:
            return judgement
    if measurement.precision == DOUBLE and leaks(
        measurement.subject, measurement.batch, measurement.law
    ):
        judgement = _at_single(judgement)
    if measurement.law.local:
        judgement = without_kink_violations(judgement)
        judgement = (
            without_half_precision_violations(judgement) if judgement.violates else judgement
        )
    if not judgement.violates:
        return judgement
    return _second_oracle(_more_noise(judgement))


def _at_single(judgement: Judgement) -> Judgement:
    """The judgement of the violating points at float32 roundoff; `dtype/follows` reports the
    float32 inside.
    """
    again = judge(judgement.measurement.at(SINGLE_INSIDE))
    new = again.violated & ~judgement.violated
    return replace(again, outcome=np.where(new, UNDECIDED, again.outcome))


def _more_noise(judgement: Judgement) -> Judgement:
    """The violations confirmed by many more runs with fresh noise."""
    measurement, suspected = judgement.measurement, judgement.violated
    subject = measurement.subject
    fine = np.ones(len(suspected), dtype=bool)
    if not vast(subject):  # there the full number of runs is as small
        confirmed = judge(measurement, SECOND_REPLICAS, "second")
        if (suspected & confirmed.violated).any():
            fine = _persists_under_fine_noise(confirmed)
        left = suspected & confirmed.violated & fine
    if vast(subject) or (left & ~far_beyond(confirmed)).any():
        confirmed = judge(measurement, affordable_replicas(CONFIRM_REPLICAS, subject), "confirm")
        if vast(subject) and (suspected & confirmed.violated).any():
            fine = _persists_under_fine_noise(confirmed)
    outcome = np.where(suspected, UNDECIDED, judgement.outcome)
    outcome = np.where(suspected & confirmed.violated & fine, VIOLATED, outcome)
    outcome = np.where(suspected & (confirmed.outcome == HELD), HELD, outcome)
    return confirmed.with_outcome(outcome)


def _persists_under_fine_noise(judgement: Judgement) -> Array:
    """Mask of violations that persist under noise near the size of rounding: amplified noise of a
    saturating error saturates too, and looks small when scaled back.
    """
    measurement = judgement.measurement
    if measurement.precision != DOUBLE:
        return np.ones(len(judgement.outcome), dtype=bool)
    replicas = affordable_replicas(FINE_REPLICAS, measurement.subject)
    fine = judge(measurement.at(FINE), replicas, "fine").violated
    if judgement.isolated is not None:  # noise that small stays at the point
        fine = fine | judgement.isolated
    return np.asarray(fine)


def _second_oracle(judgement: Judgement) -> Judgement:
    """The violations, unless the worst is a solver's step error or the law's second oracle
    disagrees.
    """
    measurement = judgement.measurement
    law, worst = measurement.law, judgement.worst()
    if not judgement.violates:
        return judgement
    point = measurement.batch.rows(slice(worst, worst + 1))
    doubt = solver_error_reason(measurement, worst)
    if not doubt and law.arbitrate is not None:
        _, doubt = law.arbitrate(measurement.subject, point)
    return _doubted(judgement, doubt)


def _without_solver_errors(judgement: Judgement) -> Judgement:
    """The violations, unless the worst is a solver's step error: checked first, since the other
    checks call the solver dozens of times.
    """
    measurement, worst = judgement.measurement, judgement.worst()
    return _doubted(judgement, solver_error_reason(measurement, worst))


def _doubted(judgement: Judgement, doubt: str) -> Judgement:
    """The judgement with all violations undecided if there is a doubt."""
    if not doubt:
        return judgement
    outcome = np.where(judgement.violated, UNDECIDED, judgement.outcome)
    return replace(judgement, outcome=outcome, reason=doubt, acquitted=True)
