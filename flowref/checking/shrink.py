"""A deterministic shrinker for counterexamples.

A shrinker that minimizes under a stochastic tolerance ends on unconvincing margins and long
decimals. This one keeps a step only while the margin stays convincing, and measures many candidates
as the rows of one batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from flowref.checking.candidates import fewer_coordinates, rounder_numbers
from flowref.checking.doubts import without_kink_violations
from flowref.checking.error_size import is_minor
from flowref.checking.judgement import Judgement
from flowref.checking.tolerance import CONFIRM_REPLICAS, affordable_replicas, guess, judge, vast
from flowref.model import ADVICE, EXACT, ROUNDING, Array, Batch, Evidence, Law, Subject

# The most candidates in all and per batch; the most entries of all together, and the fewest candidates.
EVALUATIONS, ROWS = 200, 48
ENTRIES, LEAST_LOOKS = 2**15, 8
# Candidates for expensive calls on events of thousands of entries: only the zero point.
VAST_LOOKS = 1
# The most convincing candidates of a batch that are judged with noise.
TRIES = 3
# The largest margin that a simpler point must have: errors often grow with the distance from zero, so a
# tenth of the margin of a far point would exclude every point near zero.
AMPLE = 1e10
# Candidates judged with noise times operations of a round trip, and the fewest of them.
ATTEMPT_OPERATIONS, LEAST_ATTEMPTS = 16_000, 4
# With more operations, or vast events, lives are not replayed for a simpler point, which seldom matters,
# nor for fewer rows than this.
LIVES, FEW = 500, 3


def shrink(judgement: Judgement) -> Judgement:
    """Return the same violation on fewer rows and, if one row shows it, at the simplest point that
    shows it convincingly with as many runs as a replay makes; the judgement itself if there is
    none.
    """
    law = judgement.measurement.law
    if law.tolerance not in (ROUNDING, EXACT):  # integrals and sample means have no simpler point
        return judgement
    batch = judgement.measurement.batch
    subject = judgement.measurement.subject
    lives = "play" in law.needs and (subject.operations > LIVES or vast(subject))
    if lives and len(batch.x) <= FEW:
        return judgement
    # A large Jacobian is not computed twice more for a point that is seldom simpler.
    if "jacobian" in law.needs and vast(subject) and len(batch.x) == 1:
        return judgement
    looks = max(LEAST_LOOKS, ENTRIES // max(1, batch.x[:1].size))
    looks = VAST_LOOKS if vast(subject) else looks
    budget = (
        ShrinkBudget(0, 0)
        if lives
        else ShrinkBudget(min(EVALUATIONS, looks), attempts(law, subject))
    )
    for simpler in reversed(list(_simpler(judgement, budget))):
        measurement = simpler.measurement
        confirmed = judge(measurement, affordable_replicas(CONFIRM_REPLICAS, measurement.subject))
        if confirmed.violates:
            return confirmed
    return judgement


def attempts(law: Law, subject: Subject) -> int:
    """The number of candidates that may be judged with noise, which costs many times a judgement
    without.
    """
    if law.force == ADVICE:  # advice seldom hangs on a point
        return 0
    if vast(subject):  # no such point is simple
        return 1
    return max(LEAST_ATTEMPTS, ATTEMPT_OPERATIONS // max(1, subject.operations))


@dataclass
class ShrinkBudget:
    """What is left: candidates judged without noise (``looks``) and with it (``attempts``)."""

    looks: int
    attempts: int

    @property
    def spent(self) -> bool:
        """Whether either is used up."""
        return min(self.looks, self.attempts) <= 0


def least_margin(judgement: Judgement) -> float:
    """The margin that a simpler point must have: that of the judgement or, if large, a tenth of it
    but at least ten and at most `AMPLE`; 1 for an exact law.
    """
    first = float(judgement.margin[judgement.worst()])
    if judgement.measurement.law.tolerance == EXACT or not np.isfinite(first):
        return 1.0
    return min(first, max(10.0, first / 10), AMPLE)


def _simpler(judgement: Judgement, budget: ShrinkBudget) -> Iterator[Judgement]:
    """Judgements of the same violation, each on simpler input than the last: fewer rows, then
    simpler points.
    """
    like = judgement.evidence(judgement.worst())
    fewer = _fewer_rows(judgement)
    if fewer is not None:
        yield fewer
    judgement = fewer or judgement
    batch = judgement.measurement.batch
    if len(batch.x) == 1 and batch.x.size:
        yield from _simpler_points(judgement, like, budget)


def _fewer_rows(judgement: Judgement) -> Judgement | None:
    """The violation on one, two or four rows, by halving for a law of many rows; None if it needs
    more.
    """
    batch, worst = judgement.measurement.batch, judgement.worst()
    others = [row for row in range(len(batch.x)) if row != worst]
    for rows in ([worst], [worst, *others[:1]], [worst, *others[:3]]):
        if len(rows) >= len(batch.x):
            break
        fewer = _surely(judgement, batch.rows(np.array(rows)))
        if fewer is not None:
            return fewer
    return _halved(judgement) if judgement.measurement.law.rows else None


def _halved(judgement: Judgement) -> Judgement | None:
    found = None
    while len((rows := (found or judgement).measurement.batch).x) > 1:
        half = _surely(judgement, rows.rows(slice(0, (len(rows.x) + 1) // 2)))
        if half is None:
            break
        found = half
    return found


def _simpler_points(
    judgement: Judgement, like: Evidence, budget: ShrinkBudget
) -> Iterator[Judgement]:
    """Judgements at simpler points within the budget: first fewer coordinates, then rounder
    numbers.
    """
    measurement = judgement.measurement
    support, _ = measurement.subject.drawn(measurement.law.points)
    floor = least_margin(judgement)
    stages = [fewer_coordinates, rounder_numbers]
    while stages and not budget.spent:
        candidates = stages[0](support, judgement.measurement.batch.x[0])[: budget.looks]
        budget.looks -= len(candidates)
        simpler = _first_convincing(judgement, candidates, like, floor, budget)
        if simpler is None:
            stages.pop(0)
            continue
        yield simpler
        # With rounder numbers, fewer coordinates may suffice.
        judgement, stages = simpler, [fewer_coordinates, rounder_numbers]


def _first_convincing(
    judgement: Judgement, candidates: Array, like: Evidence, floor: float, budget: ShrinkBudget
) -> Judgement | None:
    """The judgement at the first candidate with at least the margin ``floor``."""
    _, context, seed = judgement.measurement.batch
    for start in range(0, len(candidates), ROWS):
        x = candidates[start : start + ROWS]
        batch = Batch(x, None if context is None else np.repeat(context[:1], len(x), 0), seed)
        roughly = _roughly(judgement, batch, like)
        if roughly is None:
            continue
        convincing = roughly.violated & (roughly.margin >= floor)
        for row in np.flatnonzero(convincing)[:TRIES]:
            if budget.attempts <= 0:
                return None
            budget.attempts -= 1
            alone = _surely(judgement, batch.rows(slice(row, row + 1)), floor)
            if alone is not None:
                return alone
    return None


def _surely(judgement: Judgement, batch: Batch, floor: float = 0.0) -> Judgement | None:
    """The judgement on another batch if it violates there by at least ``floor``, and next to its
    points for a derivative law; None otherwise.
    """
    law = judgement.measurement.law
    try:
        again = judge(judgement.measurement.again(batch))
        if law.local and law.tolerance == ROUNDING and again.violates:
            again = without_kink_violations(again)
    except Exception:
        return None
    if not again.violates or (is_minor(again) and not is_minor(judgement)):
        return None
    return again if again.margin[again.worst()] >= floor else None


def _roughly(judgement: Judgement, batch: Batch, like: Evidence) -> Judgement | None:
    try:
        return guess(judgement.measurement.again(batch), like)
    except Exception:
        return None
