"""Counterexamples made simple: our own deterministic shrinker.

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

# Candidates that may be looked at in all, and in one batch; and entries of all of them together,
# with the candidates that are granted in any case.
EVALUATIONS, ROWS = 200, 48
ENTRIES, LEAST_LOOKS = 2**15, 8
# Those that are looked at where calls on events of thousands of entries are heavy: nothing but zeros.
VAST_LOOKS = 1
# Of the candidates of a batch that look convincing, at most this many are judged surely.
TRIES = 3
# Candidates that may be judged surely, times the operations of a round trip; and those granted in
# any case.
ATTEMPT_OPERATIONS, LEAST_ATTEMPTS = 16_000, 4
# Where a round trip takes more operations, or an event is vast, lives are not played over and over for a
# simpler point, on which they seldom hang, nor for fewer rows where there are no more than so many.
LIVES, FEW = 500, 3


def shrink(judgement: Judgement) -> Judgement:
    """The same violation on fewer rows and, where one row shows it, at the simplest point that
    shows it convincingly, in as many runs as confirm an accusation, as a replay makes them; the
    judgement itself where there is none.
    """
    law = judgement.measurement.law
    if law.tolerance not in (ROUNDING, EXACT):  # integrals and sample means have no simpler point
        return judgement
    batch = judgement.measurement.batch
    subject = judgement.measurement.subject
    lives = "play" in law.needs and (subject.operations > LIVES or vast(subject))
    if lives and len(batch.x) <= FEW:
        return judgement
    # Nor is a large map taken apart twice more, for a point that is seldom simpler.
    if "jacobian" in law.needs and vast(subject) and len(batch.x) == 1:
        return judgement
    looks = max(LEAST_LOOKS, ENTRIES // max(1, batch.x[:1].size))
    looks = VAST_LOOKS if vast(subject) else looks
    budget = Budget(0, 0) if lives else Budget(min(EVALUATIONS, looks), attempts(law, subject))
    for simpler in reversed(list(_simpler(judgement, budget))):
        measurement = simpler.measurement
        confirmed = judge(measurement, affordable_replicas(CONFIRM_REPLICAS, measurement.subject))
        if confirmed.accuses:
            return confirmed
    return judgement


def attempts(law: Law, subject: Subject) -> int:
    """How many candidates may be judged surely, which costs many times as much as a rough look."""
    if law.force == ADVICE:  # advice seldom hangs on a point
        return 0
    if vast(subject):  # no such point is simple
        return 1
    return max(LEAST_ATTEMPTS, ATTEMPT_OPERATIONS // max(1, subject.operations))


@dataclass
class Budget:
    """What may still be spent: candidates looked at, and candidates judged surely."""

    looks: int
    attempts: int

    @property
    def spent(self) -> bool:
        """Whether either is used up."""
        return min(self.looks, self.attempts) <= 0


def least_margin(judgement: Judgement) -> float:
    """The margin that a simpler point must show: that of the judgement or, where that is large, a
    tenth of it, and no less than ten. An exact law only needs to stay violated.
    """
    first = float(judgement.margin[judgement.worst()])
    if judgement.measurement.law.tolerance == EXACT or not np.isfinite(first):
        return 1.0
    return min(first, max(10.0, first / 10))


def _simpler(judgement: Judgement, budget: Budget) -> Iterator[Judgement]:
    """Judgements of the same violation, each on simpler input than the one before: fewer rows, then
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
    """One row if that shows the violation alone, else two, else four, else None; of a law of many rows as
    few as halving leaves.
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
    """The first half of the rows, and the first half of these, as long as they show the violation."""
    found = None
    while len((rows := (found or judgement).measurement.batch).x) > 1:
        half = _surely(judgement, rows.rows(slice(0, (len(rows.x) + 1) // 2)))
        if half is None:
            break
        found = half
    return found


def _simpler_points(judgement: Judgement, like: Evidence, budget: Budget) -> Iterator[Judgement]:
    """Judgements at simpler points than the only one of a judgement, as far as the budget reaches:
    first as few coordinates as show it, then numbers as round as show it.
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
        # Where numbers are rounder, fewer coordinates may be needed.
        judgement, stages = simpler, [fewer_coordinates, rounder_numbers]


def _first_convincing(
    judgement: Judgement, candidates: Array, like: Evidence, floor: float, budget: Budget
) -> Judgement | None:
    """The judgement at the first candidate that violates by enough: looked at together, then judged
    alone.
    """
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
    """The judgement on another batch, if it violates there by enough, and beside its points as
    well where a law speaks of derivatives; where the law cannot be measured, it does not.
    """
    law = judgement.measurement.law
    try:
        again = judge(judgement.measurement.again(batch))
        if law.local and law.tolerance == ROUNDING and again.accuses:
            again = without_kink_violations(again)
    except Exception:
        return None
    if not again.accuses or (is_minor(again) and not is_minor(judgement)):
        return None
    return again if again.margin[again.worst()] >= floor else None


def _roughly(judgement: Judgement, batch: Batch, like: Evidence) -> Judgement | None:
    """The judgement on another batch as far as no noise is needed; None where there is none."""
    try:
        return guess(judgement.measurement.again(batch), like)
    except Exception:
        return None
