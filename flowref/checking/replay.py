"""Measurement of a recorded counterexample, without a search."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from flowref import loading, registry
from flowref.checking.doubts import leaks
from flowref.checking.error_size import error_size, is_minor
from flowref.checking.judgement import HELD, TRIVIAL, Judgement
from flowref.checking.measurement import DOUBLE, SINGLE, Measurement, measure, precision_of
from flowref.checking.record import failing_status, observations
from flowref.checking.settings import Settings
from flowref.checking.targets import as_target
from flowref.checking.tolerance import CONFIRM_REPLICAS, judge
from flowref.model import (
    OTHER_WEIGHTS,
    ROUNDING,
    Batch,
    Condition,
    Counterexample,
    Law,
    Status,
    Subject,
    Target,
    Undecidable,
    Unsupported,
    Verdict,
    one_line,
)


def remeasure(
    target: Target | Any, law: Law | str, case: Counterexample, settings: Settings | None = None
) -> Verdict:
    """Measure one recorded counterexample again without searching, and return VIOLATED as before or
    HOLDS if it is fixed.
    """
    chosen = registry.find_law(law) if isinstance(law, str) else law
    target, settings = as_target(target), settings or Settings()
    with loading.fitting_to(settings.data):
        return _remeasured(target, chosen, case, settings)


def _remeasured(target: Target, chosen: Law, case: Counterexample, settings: Settings) -> Verdict:
    # A case records the dtype it was measured in: float32 means that float64 failed.
    condition = replace(case.condition, dtype="float64", weights=loading.weights_digest(target))
    subject = loading.load(target, condition)
    if (wider := chosen.measured_on(target, subject.promises)) not in (None, target):
        subject = loading.load(wider, condition)
    verdict = Verdict(str(target), chosen.id, Status.HOLDS, force=chosen.force)
    try:
        judgement = _judged(chosen, subject, case, condition, settings)
    except (Unsupported, Undecidable) as error:
        return replace(verdict, status=Status.INCONCLUSIVE, reason=str(error))
    except Exception as error:
        return replace(verdict, status=Status.ERROR, reason=one_line(error), counterexample=case)
    if judgement.violates:
        observed, note = observations(judgement)
        return replace(
            verdict,
            status=failing_status(chosen),
            reason=note,
            evidence=judgement.evidence(judgement.worst()),
            counterexample=replace(case, observed=observed),
            size=error_size(judgement),
            minor=is_minor(judgement),
        )
    decided = (judgement.outcome == HELD) | (judgement.outcome == TRIVIAL)
    status = Status.HOLDS if decided.any() else Status.INCONCLUSIVE
    reason = "; ".join(filter(None, (judgement.reason, other_weights(target, case))))
    return replace(verdict, status=status, reason=reason)


def other_weights(target: Target, case: Counterexample) -> str:
    """Return a phrase if the target's weight file differs from that of the case; empty if it is the
    same.
    """
    now, then = loading.weights_digest(target), case.condition.weights
    if now == then:
        return ""
    before = f"sha256 {then} then" if then else "none were given then"
    return f"{OTHER_WEIGHTS} ({before}, {f'{now} now' if now else 'none now'})"


def batch_of(case: Counterexample) -> Batch:
    """The batch of a counterexample, in float64."""
    x = np.asarray(case.x, dtype=np.float64)
    context = None if case.context is None else np.asarray(case.context, dtype=np.float64)
    return Batch(x, context, case.seed)


def _judged(
    law: Law, subject: Subject, case: Counterexample, condition: Condition, settings: Settings
) -> Judgement:
    batch = batch_of(case)
    measurement = Measurement(
        law,
        subject,
        batch,
        measure(law, subject, batch),
        precision_of(subject),
        settings.seed,
        condition,
    )
    judgement = judge(measurement, CONFIRM_REPLICAS)
    in_double = law.tolerance == ROUNDING and measurement.precision == DOUBLE
    if in_double and leaks(subject, batch, law):
        judgement = judge(measurement.at(SINGLE), CONFIRM_REPLICAS)
    return judgement
