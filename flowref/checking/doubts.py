"""Reasons to doubt an accusation that can be measured: float32 arithmetic or half precision within, a
kink at the point, and what was rounded while the object was built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from flowref.checking.judgement import HELD, UNDECIDED, Judgement
from flowref.checking.measurement import measure
from flowref.checking.tolerance import judge
from flowref.model import VALUES, Batch, Law, Subject, seed_of
from flowref.model.budget import Beyond

# How far beside a point a law of derivatives is measured again, relative to 1 + |x|.
ASIDE = 2.0**-16
# Points that single precision holds are moved by this much, so that a cast of them shows.
OFF_SINGLE = 2.0**-40
# How often an object is built again under random rounding, and how often in any case; a residual that
# is then this many times larger than what that explains is clear.
BUILDS, FEWEST_BUILDS, CLEAR = 8, 3, 8.0
# The same of an object whose calls are heavy.
FEWEST_OF_HEAVY, CLEAR_OF_HEAVY = 1, 1000.0

# Calls of which every law speaks, and those of which laws speak that need them.
READ, NEEDED = ("forward", "inverse", "log_prob"), ("score",)

# What a derivative that passes through half precision may be off, relatively; what laws need that
# compare derivatives with differences, and those that take them in closed form.
HALF = 2.0**-4
STEPPED, COARSE = frozenset({"vjp", "slope"}), frozenset({"jacobian"})
IN_HALF = "it computes in half precision within: its derivatives are that coarse, and not judged"


def leaks(subject: Subject, batch: Batch, law: Law) -> bool:
    """Whether float32 arithmetic feeds the outputs of a float64 subject that a law speaks of: a log-det
    in single precision excuses nothing of the values beside it.
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
    """Whether it feeds the outputs of some calls at these points."""
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
        except Exception:  # what a call does is the laws' affair; here only its precision matters
            continue
    return False


def without_half_precision_violations(judgement: Judgement) -> Judgement:
    """Of the violations of a law that takes derivatives those which half precision inside of a call does
    not explain. The map is made of steps there, so differences tell nothing; derivatives in closed
    form are as coarse as it. Laws of values speak of the map as it is.
    """
    measurement = judgement.measurement
    subject, batch, needs = measurement.subject, measurement.batch, measurement.law.needs
    if not needs & (STEPPED | COARSE) or not _in_half(subject, batch.rows(slice(0, 2))):
        return judgement
    coarse = measurement.size <= HALF * (1 + np.abs(measurement.scale))
    excused = judgement.violated & (coarse | bool(needs & STEPPED))
    return judgement.with_outcome(np.where(excused, UNDECIDED, judgement.outcome), IN_HALF)


def _in_half(subject: Subject, batch: Batch) -> bool:
    """Whether a call computes anything in half precision."""
    for which in ("forward", "log_prob"):
        if which not in subject.calls:
            continue
        try:
            if subject.calls[which].observe(batch.x, batch.context, default=subject.dtype).half:
                return True
        except Exception:  # what a call does is the laws' affair; here only its precision matters
            continue
    return False


def without_kink_violations(judgement: Judgement) -> Judgement:
    """Keep violations of derivative laws that persist beside the point; the others sit on a kink,
    where any one-sided derivative is right.
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
        except Exception:  # where the law cannot be measured, nothing persists
            continue
        if persists[judgement.violated].all():
            break
    outcome = np.where(judgement.violated & ~persists, UNDECIDED, judgement.outcome)
    return judgement.with_outcome(
        outcome, "the map has a kink at the point, where no derivative exists"
    )


def built_again(judgement: Judgement) -> Judgement:
    """Keep violations that are larger than what rounding while the object is built makes of the
    residual: an exponential and its inverse, computed once and kept, are off by errors that no noise
    within a call shows. Each build is one of the same random states, with noise of its own.
    """
    measurement, violated = judgement.measurement, judgement.violated
    rebuilt, precision = measurement.subject.rounded_build, measurement.precision
    if rebuilt is None or not judgement.accuses:
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
    except (Beyond, Exception):  # it cannot be measured then, and nothing is explained
        return judgement
    allowed = judgement.allowed + explained
    outcome = np.where(violated & (size <= allowed), HELD, judgement.outcome)
    grown = replace(judgement, allowed=allowed, explained=judgement.explained + explained)
    return grown.with_outcome(outcome)
