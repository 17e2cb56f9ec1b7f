"""The pure core: one target, one law, one verdict.

    load -> Subject -> draw -> law.measure -> Residual -> judge -> violated? confirm, look beside
    the point, simplify

Effort is counted in batches measured, never in seconds. `check` takes and returns plain values, so
that any map can run it.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from flowref import loading, registry
from flowref.checking.examples import Example, explore, points
from flowref.checking.record import case_of, observations, said, violation
from flowref.checking.review import leaks, measured, reviewed
from flowref.checking.tolerance import (
    CONFIRM_REPLICAS,
    DOUBLE,
    DROPPED,
    HELD,
    SINGLE,
    TRIVIAL,
    UNDECIDED,
    VIOLATED,
    Judgement,
    Precision,
    judge,
)
from flowref.model import (
    ADVICE,
    CONTRACT,
    ROUNDING,
    Array,
    Batch,
    Condition,
    Counterexample,
    Counts,
    Evidence,
    FlowrefError,
    Law,
    Residual,
    Status,
    Subject,
    Target,
    Undecidable,
    Unsupported,
    Verdict,
    seed_of,
)

PROFILES = {"quick": 0.5, "standard": 1.0, "thorough": 3.0}
# From this many operations on, as iterative inverses and solvers take them, fewer batches are
# measured, down to a share.
HEAVY, LEAST_SHARE = 800, 0.3
# A batch that raises is cut down to its raising rows in at most this many measurements.
BISECTIONS = 24
# The number of features of a target that is built large, and the operations of a small one up to
# which that is done.
MANY_FEATURES, WIDEST = 384, 5000


@dataclass(frozen=True)
class Settings:
    """How hard to look. ``profile``: quick, standard or thorough; ``seed``: of everything that is
    drawn.
    """

    profile: str = "standard"
    seed: int = 0

    def effort(self, law: Law, operations: int = 0) -> int:
        """Batches to measure for a law on a subject of which a round trip takes so many operations."""
        share = (
            1.0
            if self.profile == "thorough"
            else min(1.0, max(LEAST_SHARE, HEAVY / max(1, operations)))
        )
        return max(2, round(law.effort * PROFILES[self.profile] * share)) if law.effort > 1 else 1


class Found(Exception):
    """A violation was found: stops the search."""


@dataclass
class Tally:
    """What has been seen so far of one pair."""

    batches: int = 0
    points: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys((HELD, UNDECIDED, DROPPED, TRIVIAL), 0)
    )
    scales: set[float] = field(default_factory=set)
    reasons: dict[str, int] = field(default_factory=dict)
    unsupported: list[str] = field(default_factory=list)
    error: tuple[str, Counterexample] | None = None
    closest: Evidence | None = None
    violation: Verdict | None = None

    def undecided(self, reason: str, count: int) -> None:
        """Count points of which nothing can be said."""
        self.points[UNDECIDED] += count
        self.reasons[reason] = self.reasons.get(reason, 0) + count

    def counts(self) -> Counts:
        """The tally as a value."""
        return Counts(
            self.batches,
            self.points[HELD],
            self.points[UNDECIDED],
            self.points[DROPPED],
            self.points[TRIVIAL],
            tuple(sorted(self.scales)),
        )


def check(target: Target | Any, law: Law | str, settings: Settings | None = None) -> Verdict:
    """The verdict on one pair. ``target`` may also be a spec or a live object. Raises `TargetError`
    or `SpecError` where the target cannot be loaded at all; whatever the target does inside a law
    becomes part of the verdict.
    """
    settings = settings or Settings()
    chosen = registry.find_law(law) if isinstance(law, str) else law
    place = as_target(target)
    began = time.perf_counter()
    verdict = _check(place, chosen, settings)
    return replace(
        verdict, seconds=time.perf_counter() - began, law_version=chosen.version, force=chosen.force
    )


def as_target(target: Target | Any) -> Target:
    """A target from a target, a spec, or a live object (which is copied now)."""
    if isinstance(target, Target):
        return target
    if isinstance(target, str):
        return registry.parse_target(target)
    return loading.snapshot(target)


def not_applicable(law: Law, subject: Subject, settings: Settings) -> str | None:
    """Why a law says nothing about a subject, or None if it does."""
    missing = subject.lacks(law.needs)
    if missing:
        return f"it offers no {', no '.join(missing)}"
    if law.force == CONTRACT and law.promise is not None and not subject.promises.get(law.promise):
        return f"it does not promise {law.promise}"
    if law.thorough and settings.profile != "thorough":
        return "measured in the thorough profile only"
    if law.given == "beyond" and not (subject.facts.declared and subject.domain.bounded):
        return "no bounded domain is declared"
    return None if law.applies is None else law.applies.unmet(subject)


def _check(target: Target, law: Law, settings: Settings) -> Verdict:
    name = str(target)
    subject = loading.load(target, Condition(history=law.history))
    if law.rebuild is not None:
        if not law.features and subject.operations > WIDEST and settings.profile != "thorough":
            costly = f"a round trip takes {subject.operations} operations with few features: thorough profile only"
            return Verdict(name, law.id, Status.NOT_APPLICABLE, costly)
        wider = larger(target, subject, law.rebuild, law.features)
        if wider is None:
            return Verdict(
                name,
                law.id,
                Status.NOT_APPLICABLE,
                "it cannot be built with another number of features",
            )
        target = wider
        try:
            subject = loading.load(target, Condition(history=law.history))
        except Exception as error:
            if not law.features:
                raise
            return Verdict(
                name,
                law.id,
                Status.NOT_APPLICABLE,
                f"with {law.features} features it raises {said(error)}",
            )
    reason = not_applicable(law, subject, settings)
    if reason is not None:
        return Verdict(name, law.id, Status.NOT_APPLICABLE, reason)
    tally = Tally()
    precision = DOUBLE if subject.dtype == "float64" else SINGLE
    visit = functools.partial(_visit, target, law, settings, tally, precision)
    fixed = replace(subject, trainable=subject.trainable and not subject.promises.get("fixed"))
    try:
        explore(law, fixed, settings.seed, name, settings.effort(law, subject.operations), visit)
    except Found:
        assert tally.violation is not None
        return replace(tally.violation, counts=tally.counts())
    return conclude(name, law, tally, subject.facts.declared)


def larger(target: Target, subject: Subject, promise: str, features: int = 0) -> Target | None:
    """The same target with so many features (0: several hundred), or None where its builder takes
    no such option.
    """
    option = subject.promises.get(promise)
    if not option:
        return None
    name = option if isinstance(option, str) else "features"
    return target.with_options(**{name: str(features or MANY_FEATURES)})


def conclude(name: str, law: Law, tally: Tally, declared: bool) -> Verdict:
    """The verdict where no violation was found."""
    counts = tally.counts()
    if tally.error is not None:
        text, case = tally.error
        return Verdict(name, law.id, Status.ERROR, text, counts, counterexample=case)
    if counts.held and counts.held >= counts.undecided:
        return Verdict(name, law.id, Status.HOLDS, _abstained(tally), counts, tally.closest)
    if tally.unsupported and not counts.held and not counts.undecided:
        return Verdict(name, law.id, Status.NOT_APPLICABLE, tally.unsupported[0], counts)
    if counts.trivial and not counts.undecided:
        reason = "every point held trivially: nothing was put to the test"
    elif counts.undecided:
        reason = max(tally.reasons, key=lambda key: (tally.reasons[key], key))
    else:
        reason = (
            "no point could be measured: what comes back is not finite, or too large to be compared"
        )
        reason += "" if declared else "; a domain can be declared (?domain=)"
    return Verdict(name, law.id, Status.INCONCLUSIVE, reason, counts, tally.closest)


def _abstained(tally: Tally) -> str:
    if not tally.points[UNDECIDED]:
        return ""
    reason = max(tally.reasons, key=lambda key: (tally.reasons[key], key))
    return f"{tally.points[UNDECIDED]} points undecided: {reason}"


def _visit(
    target: Target, law: Law, settings: Settings, tally: Tally, precision: Precision, plan: Example
) -> None:
    """Measure one example and enter it in the tally; raises `Found` on a violation."""

    def applies(part: Subject) -> bool:
        return not_applicable(law, part, settings) is None

    condition = Condition(scale=plan.scale, history=law.history, seed=settings.seed + plan.build)
    moved = plan.scale > 0
    try:
        subject = loading.load(target, condition)
    except FlowrefError:
        raise
    except Exception as error:
        if not moved and not plan.build:
            raise
        how = "after moving the parameters" if moved else "in another random state"
        tally.undecided(f"{how} it cannot be built: {said(error)}", plan.batch)
        return
    batch = points(subject, plan, law.given)
    if not len(batch.x):
        return
    tally.batches += 1
    tally.scales.add(plan.scale)
    measured = _measure(law, subject, batch, tally, moved, condition)
    if measured is None:
        return
    batch, residual = measured
    try:
        seed = seed_of(settings.seed, law.key)
        judgement = judge(law, subject, batch, residual, precision, seed=seed)
        batch, judgement = reviewed(law, subject, batch, residual, judgement, seed, moved)
    except Unsupported as reason:
        tally.unsupported.append(str(reason))
        return
    except Undecidable as reason:
        tally.undecided(str(reason), len(batch.x))
        return
    _enter(tally, judgement)
    if (judgement.outcome == VIOLATED).any():
        tally.violation = violation(
            target, law, subject, batch, judgement, condition, seed, applies
        )
        raise Found


def _enter(tally: Tally, judgement: Judgement) -> None:
    for outcome in (HELD, DROPPED, TRIVIAL):
        tally.points[outcome] += int((judgement.outcome == outcome).sum())
    unsure = int((judgement.outcome == UNDECIDED).sum())
    if unsure:
        tally.undecided(judgement.reason or "it cannot be resolved in this precision", unsure)
    held = judgement.outcome == HELD
    if held.any():
        margin = np.where(held, judgement.margin, -1.0)
        evidence = judgement.evidence(int(margin.argmax()))
        if tally.closest is None or evidence.margin > tally.closest.margin:
            tally.closest = evidence


def _measure(
    law: Law, subject: Subject, batch: Batch, tally: Tally, moved: bool, condition: Condition
) -> tuple[Batch, Residual] | None:
    """The residual of the rows that can be measured; rows that raise are counted or become an
    error.
    """
    try:
        return batch, measured(law, subject, batch)
    except Unsupported as reason:
        tally.unsupported.append(str(reason))
        return None
    except Undecidable as reason:
        tally.undecided(str(reason), len(batch.x))
        return None
    except MemoryError:
        raise
    except Exception as first:
        good, bad, error = _bisect(law, subject, batch, first)
    if moved:
        tally.undecided(f"after moving the parameters it raises {said(error)}", len(bad))
    elif subject.facts.declared or not len(good):
        case = case_of(batch.rows(bad[:1]), condition, {})
        if tally.error is None:
            tally.error = (f"it raises {said(error)}", case)
    else:
        tally.points[DROPPED] += len(bad)
    if not len(good):
        return None
    try:
        kept = batch.rows(good)
        return kept, measured(law, subject, kept)
    except Exception as error:
        tally.undecided(f"it raises {said(error)} on some batches", len(good))
        return None


def _bisect(
    law: Law, subject: Subject, batch: Batch, error: Exception
) -> tuple[Array, Array, Exception]:
    """Rows that can be measured, rows that raise, and the error of the smallest raising set."""
    good: list[int] = []
    bad: list[int] = []
    stack, left, smallest = [np.arange(len(batch.x))], BISECTIONS, len(batch.x)
    while stack:
        rows = stack.pop()
        if left <= 0:
            bad += rows.tolist()
            continue
        left -= 1
        try:
            if len(rows) < len(batch.x):
                measured(law, subject, batch.rows(rows))
                good += rows.tolist()
                continue
        except Exception as raised:
            if len(rows) <= smallest:
                error, smallest = raised, len(rows)
        if len(rows) == 1:
            bad += rows.tolist()
        else:
            stack += [rows[len(rows) // 2 :], rows[: len(rows) // 2]]
    return np.array(sorted(good), dtype=int), np.array(sorted(bad), dtype=int), error


def remeasure(
    target: Target | Any, law: Law | str, case: Counterexample, settings: Settings | None = None
) -> Verdict:
    """Measure one recorded counterexample again, without searching: VIOLATED as before, HOLDS if it
    is fixed.
    """
    settings = settings or Settings()
    chosen = registry.find_law(law) if isinstance(law, str) else law
    place = as_target(target)
    subject = loading.load(place, replace(case.condition, dtype="float64"))
    batch = Batch(
        np.asarray(case.x, dtype=np.float64),
        None if case.context is None else np.asarray(case.context, dtype=np.float64),
        case.seed,
    )
    precision = DOUBLE if subject.dtype == "float64" else SINGLE
    name = str(place)
    try:
        residual = measured(chosen, subject, batch)
        seed = seed_of(settings.seed, chosen.key)
        judgement = judge(chosen, subject, batch, residual, precision, CONFIRM_REPLICAS, seed)
        if chosen.tolerance == ROUNDING and precision is DOUBLE and leaks(subject, batch):
            judgement = judge(chosen, subject, batch, residual, SINGLE, CONFIRM_REPLICAS, seed)
    except (Unsupported, Undecidable) as error:
        return Verdict(name, chosen.id, Status.INCONCLUSIVE, str(error), force=chosen.force)
    except Exception as error:
        return Verdict(
            name, chosen.id, Status.ERROR, said(error), force=chosen.force, counterexample=case
        )
    if (judgement.outcome == VIOLATED).any():
        row = judgement.worst()
        status = Status.ADVICE if chosen.force == ADVICE else Status.VIOLATED
        observed, note = observations(chosen, subject, batch, row)
        again = replace(case, observed=observed)
        return Verdict(
            name,
            chosen.id,
            status,
            note,
            evidence=judgement.evidence(row),
            counterexample=again,
            force=chosen.force,
        )
    decided = (judgement.outcome == HELD) | (judgement.outcome == TRIVIAL)
    status = Status.HOLDS if decided.any() else Status.INCONCLUSIVE
    return Verdict(name, chosen.id, status, judgement.reason, force=chosen.force)


Check = Callable[[Target, Law, Settings], Verdict]
__all__ = ["Check", "Settings", "as_target", "check", "larger", "not_applicable", "remeasure"]
