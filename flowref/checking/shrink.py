"""Counterexamples made simple: our own deterministic shrinker.

A shrinker that minimizes under a stochastic tolerance ends on unconvincing margins and long
decimals. This one keeps a step only while the margin stays convincing, and measures many candidates
as the rows of one batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flowref.checking.candidates import simpler_points
from flowref.checking.doubts import beside
from flowref.checking.judgement import VIOLATED, Judgement
from flowref.checking.tolerance import guess, judge
from flowref.model import ADVICE, EXACT, ROUNDING, Array, Batch, Evidence, Law, Subject

# Candidates that may be looked at in all, and in one batch.
EVALUATIONS, ROWS = 200, 48
# Of the candidates of a batch that look convincing, at most this many are judged surely.
TRIES = 3
# How often the candidates are made anew from a point that was made simpler.
PASSES = 3
# Candidates that may be judged surely, times the operations of a round trip; and those granted in
# any case.
ATTEMPT_OPERATIONS, LEAST_ATTEMPTS = 16_000, 4


def shrink(judgement: Judgement) -> Judgement:
    """The same violation on the simplest batch that still shows it convincingly; the judgement
    itself where there is none.
    """
    law = judgement.measurement.law
    if law.tolerance not in (ROUNDING, EXACT):  # integrals and sample means have no simpler point
        return judgement
    simple = simplified(judgement, attempts(law, judgement.measurement.subject))
    if law.local and law.tolerance == ROUNDING and not beside(simple).accuses:
        return judgement  # it was shrunk onto a kink
    return simple


def attempts(law: Law, subject: Subject) -> int:
    """How many candidates may be judged surely, which costs many times as much as a rough look."""
    if law.force == ADVICE:  # advice seldom hangs on a point
        return 0
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


def simplified(judgement: Judgement, attempts: int) -> Judgement:
    """The same violation on fewer rows and, where one row shows it, at a simpler point.

    The margin may not fall below min(first, max(10, first / 10)); exact laws only need to stay
    violated.
    """
    like = judgement.evidence(judgement.worst())
    judgement = _fewer_rows(judgement)
    batch = judgement.measurement.batch
    if len(batch.x) != 1 or not batch.x.size or not attempts:
        return judgement
    budget = Budget(EVALUATIONS, attempts)
    point = _simplest(judgement, like, budget)
    final = _surely(judgement, batch._replace(x=point[None]))
    return judgement if final is None or not final.accuses else final


def least_margin(judgement: Judgement) -> float:
    """The margin that a simpler point must show."""
    first = float(judgement.margin[judgement.worst()])
    if judgement.measurement.law.tolerance == EXACT or not np.isfinite(first):
        return 1.0
    return min(first, max(10.0, first / 10))


def _fewer_rows(judgement: Judgement) -> Judgement:
    """One row if that shows the violation alone, else two, else four, else the batch as it is."""
    batch, worst = judgement.measurement.batch, judgement.worst()
    others = [row for row in range(len(batch.x)) if row != worst]
    for rows in ([worst], [worst, *others[:1]], [worst, *others[:3]]):
        if len(rows) >= len(batch.x):
            break
        smaller = _surely(judgement, batch.rows(np.array(rows)))
        if smaller is not None and smaller.accuses:
            return smaller
    return judgement


def _simplest(judgement: Judgement, like: Evidence, budget: Budget) -> Array:
    """The simplest convincing point that the budget reaches from the only point of a judgement."""
    measurement = judgement.measurement
    support, _ = measurement.subject.drawn(measurement.law.points)
    floor = least_margin(judgement)
    point: Array = measurement.batch.x[0]
    for _ in range(PASSES):
        before = point
        for candidates in simpler_points(support, point):
            candidates = candidates[: budget.looks]
            budget.looks -= len(candidates)
            if not len(candidates):
                break
            chosen = _first_convincing(judgement, candidates, like, floor, budget)
            point = point if chosen is None else chosen
        if np.array_equal(before, point) or budget.spent:
            break
    return point


def _first_convincing(
    judgement: Judgement, candidates: Array, like: Evidence, floor: float, budget: Budget
) -> Array | None:
    """The first candidate, in order of simplicity, that violates by enough: looked at together,
    then judged alone.
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
            alone = _surely(judgement, batch.rows(slice(row, row + 1)))
            if alone is None or alone.outcome[0] != VIOLATED:
                continue
            if alone.margin[0] >= floor:
                return np.asarray(x[row])
    return None


def _surely(judgement: Judgement, batch: Batch) -> Judgement | None:
    """The judgement on another batch; None where the law cannot be measured, which makes no simpler
    input.
    """
    try:
        return judge(judgement.measurement.again(batch))
    except Exception:
        return None


def _roughly(judgement: Judgement, batch: Batch, like: Evidence) -> Judgement | None:
    """The judgement on another batch as far as no noise is needed; None as above."""
    try:
        return guess(judgement.measurement.again(batch), like)
    except Exception:
        return None
