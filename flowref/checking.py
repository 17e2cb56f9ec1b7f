"""The pure core: one target, one law, one verdict.

    load -> Subject -> draw -> law.measure -> Residual -> judge -> violated? confirm, look beside the point, simplify

Effort is counted in batches measured, never in seconds. `check` takes and returns plain values, so that any map can run it.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from flowref import registry
from flowref.model import (
    ADVICE,
    CONTRACT,
    EXACT,
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
)
from flowref.simplifying import simplify
from flowref.strategies import Example, explore, points, seed_of
from flowref.tolerance import (
    CONFIRM_REPLICAS,
    DOUBLE,
    DROPPED,
    FINE,
    FINE_REPLICAS,
    HELD,
    QUICK_REPLICAS,
    SINGLE,
    TRIVIAL,
    UNDECIDED,
    VIOLATED,
    Judgement,
    Precision,
    guess,
    judge,
)

PROFILES = {"quick": 0.5, "standard": 1.0, "thorough": 3.0}
# How far beside a point a law of derivatives is measured again, relative to 1 + |x|.
ASIDE = 2.0**-16
# A batch that raises is cut down to its raising rows in at most this many measurements.
BISECTIONS = 24
# The number of features of a target that is built large.
MANY_FEATURES = 384


@dataclass(frozen=True)
class Settings:
    """How hard to look. ``profile``: quick, standard or thorough; ``seed``: of everything that is drawn."""

    profile: str = "standard"
    seed: int = 0

    def effort(self, law: Law) -> int:
        """Batches to measure for a law."""
        return max(2, round(law.effort * PROFILES[self.profile])) if law.effort > 1 else 1


class Found(Exception):
    """A violation was found: stops the search."""


@dataclass
class Tally:
    """What has been seen so far of one pair."""

    batches: int = 0
    points: dict[str, int] = field(default_factory=lambda: dict.fromkeys((HELD, UNDECIDED, DROPPED, TRIVIAL), 0))
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
    """The verdict on one pair. ``target`` may also be a spec or a live object. Raises `TargetError` or `SpecError` where the
    target cannot be loaded at all; whatever the target does inside a law becomes part of the verdict.
    """
    settings = settings or Settings()
    chosen = registry.find_law(law) if isinstance(law, str) else law
    place = as_target(target)
    began = time.perf_counter()
    verdict = _check(place, chosen, settings)
    return replace(verdict, seconds=time.perf_counter() - began, law_version=chosen.version, force=chosen.force)


def as_target(target: Target | Any) -> Target:
    """A target from a target, a spec, or a live object (which is copied now)."""
    if isinstance(target, Target):
        return target
    if isinstance(target, str):
        return registry.parse_target(target)
    from flowref import loading

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
    if law.given == "beyond" and not (subject.declared and subject.domain.bounded):
        return "no bounded domain is declared"
    return law.applies(subject) if law.applies is not None else None


def _check(target: Target, law: Law, settings: Settings) -> Verdict:
    name = str(target)
    subject = load(target, Condition(history=law.history))
    if law.rebuild is not None:
        wider = larger(target, subject, law.rebuild)
        if wider is None:
            return Verdict(name, law.id, Status.NOT_APPLICABLE, "it cannot be built with another number of features")
        target = wider
        subject = load(target, Condition(history=law.history))
    reason = not_applicable(law, subject, settings)
    if reason is not None:
        return Verdict(name, law.id, Status.NOT_APPLICABLE, reason)
    tally = Tally()
    precision = DOUBLE if subject.dtype == "float64" else SINGLE
    visit = functools.partial(_visit, target, law, settings, tally, precision)
    fixed = replace(subject, trainable=subject.trainable and not subject.promises.get("fixed"))
    try:
        explore(law, fixed, settings.seed, name, settings.effort(law), visit)
    except Found:
        assert tally.violation is not None
        return replace(tally.violation, counts=tally.counts())
    return conclude(name, law, tally)


def larger(target: Target, subject: Subject, promise: str) -> Target | None:
    """The same target with several hundred features, or None where its builder takes no such option."""
    option = subject.promises.get(promise)
    if not option:
        return None
    name = option if isinstance(option, str) else "features"
    return target.with_options(**{name: str(MANY_FEATURES)})


def load(target: Target, condition: Condition) -> Subject:
    """A fresh subject; snapshots of built objects are kept by the process, the abilities copy them at each call."""
    return _loaded(target, condition)


@functools.lru_cache(maxsize=24)
def _loaded(target: Target, condition: Condition) -> Subject:
    return registry.load(target, condition)


def forget() -> None:
    """Drop cached subjects, laws' inputs and plans (after files changed)."""
    from flowref import loading

    _loaded.cache_clear()
    loading.forget()


def conclude(name: str, law: Law, tally: Tally) -> Verdict:
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
        reason = "no point could be measured: the map is not finite there; a domain can be declared (?domain=)"
    return Verdict(name, law.id, Status.INCONCLUSIVE, reason, counts, tally.closest)


def _abstained(tally: Tally) -> str:
    if not tally.points[UNDECIDED]:
        return ""
    reason = max(tally.reasons, key=lambda key: (tally.reasons[key], key))
    return f"{tally.points[UNDECIDED]} points undecided: {reason}"


def _visit(target: Target, law: Law, settings: Settings, tally: Tally, precision: Precision, plan: Example) -> None:
    """Measure one example and enter it in the tally; raises `Found` on a violation."""
    condition = Condition(scale=plan.scale, history=law.history, seed=settings.seed)
    moved = plan.scale > 0
    try:
        subject = load(target, condition)
    except FlowrefError:
        raise
    except Exception as error:
        if not moved:
            raise
        tally.undecided(f"after moving the parameters it cannot be built: {_said(error)}", plan.batch)
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
        seed = seed_of(settings.seed, law.id)
        judgement = judge(law, subject, batch, residual, precision, seed=seed)
        judgement = _review(law, subject, batch, residual, judgement, precision, seed, moved, tally)
    except Unsupported as reason:
        tally.unsupported.append(str(reason))
        return
    except Undecidable as reason:
        tally.undecided(str(reason), len(batch.x))
        return
    _enter(tally, judgement)
    if (judgement.outcome == VIOLATED).any():
        tally.violation = _violation(target, law, settings, subject, batch, judgement, condition, seed)
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


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


def _measure(
    law: Law, subject: Subject, batch: Batch, tally: Tally, moved: bool, condition: Condition
) -> tuple[Batch, Residual] | None:
    """The residual of the rows that can be measured; rows that raise are counted or become an error."""
    try:
        return batch, _quietly(law, subject, batch)
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
        tally.undecided(f"after moving the parameters it raises {_said(error)}", len(bad))
    elif subject.declared or not len(good):
        case = _case(batch.rows(bad[:1]), condition, {})
        if tally.error is None:
            tally.error = (f"it raises {_said(error)}", case)
    else:
        tally.points[DROPPED] += len(bad)
    if not len(good):
        return None
    try:
        kept = batch.rows(good)
        return kept, _quietly(law, subject, kept)
    except Exception as error:
        tally.undecided(f"it raises {_said(error)} on some batches", len(good))
        return None


def _quietly(law: Law, subject: Subject, batch: Batch) -> Residual:
    """Measure on a copy of the inputs: a subject that works in place must not corrupt its own counterexample."""
    with np.errstate(all="ignore"):
        return law.measure(
            subject, Batch(batch.x.copy(), None if batch.context is None else batch.context.copy(), batch.seed)
        )


def _bisect(law: Law, subject: Subject, batch: Batch, error: Exception) -> tuple[Array, Array, Exception]:
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
                _quietly(law, subject, batch.rows(rows))
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


def _review(
    law: Law,
    subject: Subject,
    batch: Batch,
    residual: Residual,
    judgement: Judgement,
    precision: Precision,
    seed: int,
    moved: bool,
    tally: Tally,
) -> Judgement:
    """Confirm what was judged a violation: more noise, the target's real precision, beside the point, by a second oracle."""
    suspected = judgement.outcome == VIOLATED
    if not suspected.any() or law.tolerance != ROUNDING:
        return judgement
    if precision is DOUBLE and leaks(subject, batch):
        # float32 arithmetic inside: `hygiene/dtype-follow` reports it, and every other law is judged at float32's roundoff.
        precision = replace(SINGLE, factor=2 * SINGLE.factor)
        judgement = judge(law, subject, batch, residual, precision, seed=seed)
    if law.local:
        judgement = _aside(law, subject, batch, judgement, precision, seed)
    suspected = judgement.outcome == VIOLATED
    if not suspected.any():
        return judgement
    confirmed = judge(law, subject, batch, residual, precision, CONFIRM_REPLICAS, seed_of(seed, "confirm"))
    outcome = np.where(
        suspected & (confirmed.outcome == VIOLATED), VIOLATED, np.where(suspected, UNDECIDED, judgement.outcome)
    )
    outcome = np.where(suspected & (confirmed.outcome == HELD), HELD, outcome)
    if precision is DOUBLE and (outcome == VIOLATED).any():
        # Where errors grow until they saturate, amplified noise saturates too and looks small when it is scaled back; noise
        # of nearly the size of rounding itself does not.
        fine = judge(law, subject, batch, residual, FINE, FINE_REPLICAS, seed_of(seed, "fine"))
        outcome = np.where((outcome == VIOLATED) & (fine.outcome != VIOLATED), UNDECIDED, outcome)
    if moved:
        outcome = np.where((outcome == VIOLATED) & ~np.isfinite(confirmed.residual), UNDECIDED, outcome)
    reviewed = replace(confirmed, outcome=outcome.astype(object))
    if law.arbitrate is not None and (reviewed.outcome == VIOLATED).any():
        worst = reviewed.worst()
        doubt = law.arbitrate(subject, batch.rows(slice(worst, worst + 1)))[1]
        if doubt:
            outcome = np.where(reviewed.outcome == VIOLATED, UNDECIDED, reviewed.outcome)
            reviewed = replace(reviewed, outcome=outcome, reason=doubt)
    return reviewed


def leaks(subject: Subject, batch: Batch) -> bool:
    """Whether float32 arithmetic feeds the outputs of a float64 subject."""
    if subject.observe is None:
        return False
    rows = batch.rows(slice(0, 2))
    for which in ("forward", "inverse", "log_prob"):
        if getattr(subject, which) is None:
            continue
        try:
            x = rows.x if which != "inverse" or subject.forward is None else subject.forward(rows.x, rows.context).value
            if subject.observe(which, x, rows.context, default=subject.dtype).float32:
                return True
        except Exception:  # what a call does is the laws' affair; here only its precision is asked for
            continue
    return False


def _aside(
    law: Law, subject: Subject, batch: Batch, judgement: Judgement, precision: Precision, seed: int
) -> Judgement:
    """Keep violations of derivative laws that persist beside the point; the others sit on a kink, where any one-sided
    derivative is right.
    """
    rows = np.flatnonzero(judgement.outcome == VIOLATED)
    rng = np.random.default_rng(seed_of(seed, "aside") % 2**63)
    step = (
        ASIDE * (1 + np.abs(batch.x)) * rng.choice((-1.0, 1.0), size=batch.x.shape) * rng.uniform(0.5, 1, batch.x.shape)
    )
    persists = np.zeros(len(batch.x), dtype=bool)
    support, _ = subject.drawn(law.given)
    if support.kind in ("simplex", "ordered"):
        return judgement
    for sign in (1.0, -1.0):
        beside = batch._replace(x=batch.x + sign * step)
        inside = support.holds(beside.x) | ~support.holds(batch.x)
        beside = beside._replace(x=np.where(inside.reshape(-1, *[1] * (batch.x.ndim - 1)), beside.x, batch.x))
        try:
            residual = _quietly(law, subject, beside)
            again = judge(law, subject, beside, residual, precision, QUICK_REPLICAS, seed)
        except Exception:  # the law could not be measured there: the point itself decides
            continue
        persists |= again.outcome == VIOLATED
    outcome = judgement.outcome.copy()
    outcome[rows[~persists[rows]]] = UNDECIDED
    return replace(judgement, outcome=outcome, reason="the map has a kink at the point, where no derivative exists")


def _case(batch: Batch, condition: Condition, observed: dict[str, Any]) -> Counterexample:
    return Counterexample(
        x=batch.x.tolist(),
        context=None if batch.context is None else batch.context.tolist(),
        seed=batch.seed,
        condition=condition,
        observed=observed,
    )


def _violation(
    target: Target,
    law: Law,
    settings: Settings,
    subject: Subject,
    batch: Batch,
    judgement: Judgement,
    condition: Condition,
    seed: int,
) -> Verdict:
    """Simplify a confirmed violation and write it down."""
    precision = judgement.precision

    worst = judgement.evidence(judgement.worst())

    def margins(candidate: Batch, sure: bool) -> Judgement | None:
        try:
            residual = _quietly(law, subject, candidate)
            if not sure:
                return guess(law, residual, worst, precision)
            return judge(law, subject, candidate, residual, precision, QUICK_REPLICAS, seed)
        except Exception:  # a simpler input on which the law cannot be measured is no simpler input
            return None

    small, final = batch, judgement
    if law.tolerance in (ROUNDING, EXACT):  # integrals and sample means have no point to make simpler
        support = subject.drawn(law.given)[0]
        small, final = simplify(support, batch, judgement, margins, exact=law.tolerance == EXACT)
    if law.local and not (_aside(law, subject, small, final, precision, seed).outcome == VIOLATED).any():
        small, final = batch, judgement  # simplified onto a kink
    row = final.worst()
    observed, note = _observations(law, subject, small, row)
    part = offending_part(target, law, settings, small, condition, precision) if law.parted and subject.parts else ""
    status = Status.ADVICE if law.force == ADVICE else Status.VIOLATED
    where = "at the weights as given" if condition.scale == 0 else f"after moving the parameters by {condition.scale:g}"
    reason = "; ".join(filter(None, (note, where)))
    case = _case(small, replace(condition, dtype=subject.dtype), observed)
    return Verdict(str(target), law.id, status, reason, evidence=final.evidence(row), counterexample=case, part=part)


def _observations(law: Law, subject: Subject, batch: Batch, row: int) -> tuple[dict[str, Any], str]:
    """The numbers that a reader wants to see beside the violation, and the law's own sentence."""
    try:
        residual = _quietly(law, subject, batch)
        observed = {name: _plain(np.asarray(value)[row]) for name, value in residual.observed.items()}
        note = residual.note
        if law.arbitrate is not None:
            more, _ = law.arbitrate(subject, batch.rows(slice(row, row + 1)))
            observed |= {name: _plain(value) for name, value in more.items()}
    except Exception as error:
        return {}, _said(error)
    return observed, note


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def offending_part(
    target: Target, law: Law, settings: Settings, batch: Batch, condition: Condition, precision: Precision
) -> str:
    """The first part of a composite that violates the same law at the point it is reached with."""
    whole = load(target, condition)
    names = whole.parts
    try:
        points_in = _reached(whole, batch)
    except Exception:  # the parts cannot be run one by one
        return ""
    for place, reached in enumerate(points_in):
        try:
            part = load(target, replace(condition, part=(place,)))
            part = replace(part, event_shape=reached.x.shape[1:], latent_shape=part.latent_shape)
            if not_applicable(law, part, settings) is not None:
                continue
            residual = _quietly(law, part, reached)
            found = judge(law, part, reached, residual, precision, CONFIRM_REPLICAS, settings.seed)
        except Exception:  # this part cannot be judged alone
            continue
        if (found.outcome == VIOLATED).any():
            return f"part {place + 1} of {len(names)} ({names[place]})"
    return ""


def _reached(whole: Subject, batch: Batch) -> list[Batch]:
    """The inputs with which each part is reached."""
    reached, x = [], batch.x
    for part in whole.part_maps:
        reached.append(batch._replace(x=x))
        x = part(x, batch.context).value
    return reached


def remeasure(target: Target | Any, law: Law | str, case: Counterexample, settings: Settings | None = None) -> Verdict:
    """Measure one recorded counterexample again, without searching: VIOLATED as before, HOLDS if it is fixed."""
    settings = settings or Settings()
    chosen = registry.find_law(law) if isinstance(law, str) else law
    place = as_target(target)
    subject = load(place, replace(case.condition, dtype="float64"))
    batch = Batch(
        np.asarray(case.x, dtype=np.float64),
        None if case.context is None else np.asarray(case.context, dtype=np.float64),
        case.seed,
    )
    precision = DOUBLE if subject.dtype == "float64" else SINGLE
    name = str(place)
    try:
        residual = _quietly(chosen, subject, batch)
        seed = seed_of(settings.seed, chosen.id)
        judgement = judge(chosen, subject, batch, residual, precision, CONFIRM_REPLICAS, seed)
        if chosen.tolerance == ROUNDING and precision is DOUBLE and leaks(subject, batch):
            judgement = judge(chosen, subject, batch, residual, SINGLE, CONFIRM_REPLICAS, seed)
    except (Unsupported, Undecidable) as error:
        return Verdict(name, chosen.id, Status.INCONCLUSIVE, str(error), force=chosen.force)
    except Exception as error:
        return Verdict(name, chosen.id, Status.ERROR, _said(error), force=chosen.force, counterexample=case)
    if (judgement.outcome == VIOLATED).any():
        row = judgement.worst()
        status = Status.ADVICE if chosen.force == ADVICE else Status.VIOLATED
        observed, note = _observations(chosen, subject, batch, row)
        again = replace(case, observed=observed)
        return Verdict(
            name, chosen.id, status, note, evidence=judgement.evidence(row), counterexample=again, force=chosen.force
        )
    decided = (judgement.outcome == HELD) | (judgement.outcome == TRIVIAL)
    status = Status.HOLDS if decided.any() else Status.INCONCLUSIVE
    return Verdict(name, chosen.id, status, judgement.reason, force=chosen.force)


Check = Callable[[Target, Law, Settings], Verdict]
__all__ = ["EXACT", "Check", "Settings", "as_target", "check", "forget", "not_applicable", "remeasure"]
