"""Measured reasons to dismiss a violation: float32 or half precision inside, a kink at the point,
rounding while the object was built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from flowref.checking.judgement import HELD, UNDECIDED, Judgement
from flowref.checking.measurement import measure
from flowref.checking.tolerance import judge
from flowref.model import VALUES, Batch, Law, Subject, seed_of
from flowref.model.budget import BudgetExceeded

# Distance at which a derivative law is measured again, relative to 1 + |x|.
ASIDE = 2.0**-16
# Points representable in float32 are moved by this much, so that a cast to float32 shows.
OFF_SINGLE = 2.0**-40
# Rebuilds under random rounding, the fewest of them, and the factor over the explained residual at
# which fewer suffice.
BUILDS, FEWEST_BUILDS, CLEAR = 8, 3, 8.0
# The same for an object whose calls are expensive.
FEWEST_OF_HEAVY, CLEAR_OF_HEAVY = 1, 1000.0

# Calls that every law may test, and those that are tested only by laws that need them.
READ, NEEDED = ("forward", "inverse", "log_prob"), ("score",)

# Relative error of a derivative through half precision; abilities of laws that compare derivatives
# with differences, and of laws that take them in closed form.
HALF = 2.0**-4
STEPPED, COARSE = frozenset({"vjp", "slope"}), frozenset({"jacobian"})
IN_HALF = "it computes in half precision inside: its derivatives are too coarse to be judged"


def leaks(subject: Subject, batch: Batch, law: Law) -> bool:
    """Whether a float32 intermediate affects the tested output of a float64 subject. A float32
    log-det does not explain errors of the values returned with it.
    """
    values = law.about == VALUES
    calls = (*READ, *(name for name in NEEDED if name in law.needs))
    rows = batch.rows(slice(0, 2))
    moved = rows.x * (1 - OFF_SINGLE) + np.where(rows.x == 0, OFF_SINGLE, 0)
    return any(
        _narrow(subject, rows._replace(x=x), values, calls)
        for x in ((rows.x, moved) if np.isin(rows.x, (-1, 0, 1)).all() else (rows.x,))
    )


def _narrow(subject: Subject, rows: Batch, values: bool, calls: Sequence[str]) -> bool:
    """Whether a float32 intermediate affects the outputs of some calls at these points."""
    for which in calls:
        if which not in subject.calls:
            continue
        try:
            x = (
                rows.x
                if which != "inverse" or subject.forward is None
                else subject.forward(rows.x, rows.context).value
            )
            for training in (False, True)[: 1 + subject.stateful]:
                seen = subject.calls[which].observe(
                    x, rows.context, default=subject.dtype, training=training
                )
                if seen.float32 and not (values and seen.beside):
                    return True
        except Exception:  # laws report what a call raises; only its precision matters here
            continue
    return False


def without_half_precision_violations(judgement: Judgement) -> Judgement:
    """Dismiss violations of a derivative law that half precision inside a call explains: finite
    differences of a staircase are meaningless, and closed-form derivatives are as coarse as the
    format. Laws of values are unaffected.
    """
    measurement = judgement.measurement
    subject, batch, needs = measurement.subject, measurement.batch, measurement.law.needs
    if not needs & (STEPPED | COARSE) or not _in_half(subject, batch.rows(slice(0, 2))):
        return judgement
    coarse = measurement.size <= HALF * (1 + np.abs(measurement.scale))
    doubtful = judgement.violated & (coarse | bool(needs & STEPPED))
    return judgement.with_outcome(np.where(doubtful, UNDECIDED, judgement.outcome), IN_HALF)


def _in_half(subject: Subject, batch: Batch) -> bool:
    for which in ("forward", "log_prob"):
        if which not in subject.calls:
            continue
        try:
            if subject.calls[which].observe(batch.x, batch.context, default=subject.dtype).half:
                return True
        except Exception:  # laws report what a call raises; only its precision matters here
            continue
    return False


def without_kink_violations(judgement: Judgement) -> Judgement:
    """Keep violations of derivative laws that persist next to the point; the others lie on a kink,
    where every one-sided derivative is right.
    """
    measurement = judgement.measurement
    law, batch = measurement.law, measurement.batch
    support, _ = measurement.subject.drawn(law.points)
    if support.joint:  # a step of one coordinate leaves the set
        return judgement
    rng = np.random.default_rng(seed_of(measurement.seed, "aside") % 2**63)
    step = ASIDE * (1 + np.abs(batch.x)) * rng.choice((-1.0, 1.0), size=batch.x.shape)
    step = step * rng.uniform(0.5, 1, batch.x.shape)
    persists = np.zeros(len(batch.x), dtype=bool)
    for sign in (1.0, -1.0):
        x = batch.x + sign * step
        inside = support.holds(x) | ~support.holds(batch.x)
        x = np.where(inside.reshape(-1, *[1] * (batch.x.ndim - 1)), x, batch.x)
        try:
            there = measurement.again(batch._replace(x=x))
            far = measurement.subject.cost.heavy and there.size > CLEAR_OF_HEAVY * judgement.allowed
            persists |= far if np.all(far) else judge(there).violated
        except Exception:  # a law that cannot be measured there confirms nothing
            continue
        if persists[judgement.violated].all():
            break
    outcome = np.where(judgement.violated & ~persists, UNDECIDED, judgement.outcome)
    return judgement.with_outcome(
        outcome, "the map has a kink at the point, where no derivative exists"
    )


def built_again(judgement: Judgement) -> Judgement:
    """Keep violations larger than rounding during construction explains: an exponential and its
    inverse, computed once and stored, carry errors that noise inside calls cannot show. Each
    rebuild has the same random state and its own noise.
    """
    measurement, violated = judgement.measurement, judgement.violated
    rebuilt, precision = measurement.subject.rounded_build, measurement.precision
    if rebuilt is None or not judgement.violates:
        return judgement
    size, magnitude = measurement.size, precision.amplify * precision.unit
    base = np.asarray(measurement.residual.value, dtype=np.float64).reshape(len(size), -1)
    total, explained = np.zeros_like(base), np.zeros_like(size)
    heavy = measurement.subject.cost.heavy
    try:
        for run in range(BUILDS):
            with rebuilt(seed_of(measurement.seed, "built", run), magnitude) as differs:
                if not differs:
                    return judgement
                again = measure(measurement.law, measurement.subject, measurement.batch)
            with np.errstate(all="ignore"):
                change = np.asarray(again.value, dtype=np.float64).reshape(base.shape) - base
            total += np.where(np.isfinite(change), change, 0.0) ** 2
            response = np.sqrt(total.max(1, initial=0.0) / (run + 1))
            explained = precision.factor * response / precision.amplify
            known = judgement.allowed + explained
            if run + 1 >= FEWEST_BUILDS and (size > CLEAR * known)[violated].all():
                break
            far = size > CLEAR_OF_HEAVY * known
            if heavy and run + 1 >= FEWEST_OF_HEAVY and far[violated].all():
                break
    except (BudgetExceeded, Exception):  # it cannot be rebuilt, so nothing is explained
        return judgement
    allowed = judgement.allowed + explained
    outcome = np.where(violated & (size <= allowed), HELD, judgement.outcome)
    grown = replace(judgement, allowed=allowed, explained=judgement.explained + explained)
    return grown.with_outcome(outcome)
