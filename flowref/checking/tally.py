"""Counts of the outcomes of one pair, and the verdict if none is a violation."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from flowref.checking.judgement import DROPPED, HELD, TRIVIAL, UNDECIDED, Judgement
from flowref.model import (
    Counterexample,
    Counts,
    Evidence,
    Law,
    NotJudged,
    Status,
    Unsupported,
    Verdict,
)


@dataclass
class Tally:
    """The counts so far of one pair.

    ``closest``: the evidence of the point closest to a violation; ``method``: how points were
    measured, if the law says; ``stopped``: why the budget ended the search; ``exempt``: points
    exempt by each fact; ``silenced``: the law's note on a batch without a decidable point;
    ``moved``: the perturbation of the current batch; ``as_given``: reasons at unperturbed weights;
    ``held_moved``: whether points were judged at perturbed weights; ``held_given`` and
    ``undecided_given``: counts at unperturbed weights; ``lacking_given``: whether an ability is
    missing there.
    """

    batches: int = 0
    points: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys((HELD, UNDECIDED, DROPPED, TRIVIAL), 0)
    )
    scales: set[float] = field(default_factory=set)
    reasons: dict[str, int] = field(default_factory=dict)
    exempt: dict[str, int] = field(default_factory=dict)
    unsupported: list[NotJudged] = field(default_factory=list)
    error: tuple[str, Counterexample] | None = None
    closest: Evidence | None = None
    method: str = ""
    stopped: str = ""
    silenced: str = ""
    moved: float = 0.0
    as_given: set[str] = field(default_factory=set)
    held_moved: bool = False
    held_given: int = 0
    undecided_given: int = 0
    lacking_given: bool = False

    def drawn(self, scale: float) -> None:
        """Count a batch at weights perturbed by ``scale``."""
        self.batches += 1
        self.scales.add(scale)
        self.moved = scale

    @property
    def only_as_given(self) -> bool:
        """Whether weights were perturbed, and no point could be judged at any of them."""
        silenced = self.unsupported or self.error is not None or self.stopped
        return any(self.scales) and not self.held_moved and not silenced

    def undecided(self, reason: str, count: int) -> None:
        """Count undecided points."""
        self.points[UNDECIDED] += count
        self.reasons[reason] = self.reasons.get(reason, 0) + count
        if not self.moved:
            self.as_given.add(reason)
            self.undecided_given += count

    def refused(self, reason: Unsupported) -> None:
        """Count a batch on which an ability is missing: the law is blocked, unless the exception
        says otherwise.
        """
        blocked = reason.blocked is not False
        self.unsupported.append(NotJudged(str(reason), blocked, reason.remedy))
        self.lacking_given |= not self.moved

    def dropped(self, count: int) -> None:
        """Count points that the law exempts."""
        self.points[DROPPED] += count

    def judged(self, judgement: Judgement) -> None:
        """Count the points of a judgement without violations."""
        for outcome in (HELD, DROPPED, TRIVIAL):
            self.points[outcome] += int((judgement.outcome == outcome).sum())
        for words, count in judgement.exempt.items():
            self.exempt[words] = self.exempt.get(words, 0) + count
        if (judgement.outcome == DROPPED).all():
            self.silenced = self.silenced or judgement.measurement.residual.note
        unsure = int((judgement.outcome == UNDECIDED).sum())
        if unsure:
            self.undecided(judgement.reason or "it cannot be resolved in this precision", unsure)
        held = judgement.outcome == HELD
        if (held | (judgement.outcome == TRIVIAL)).any():
            self.held_moved |= self.moved > 0
        if not self.moved:
            self.held_given += int(held.sum())
        if held.any():
            self.method = judgement.measurement.residual.method or self.method
            margin = np.where(held, judgement.margin, -1.0)
            evidence = judgement.evidence(int(margin.argmax()))
            if self.closest is None or evidence.margin > self.closest.margin:
                self.closest = evidence

    @property
    def settled(self) -> bool:
        """Whether at least half of the points could be judged: of all, or of those at unperturbed
        weights if some were judged at perturbed ones, which are often no bijection in this
        precision.
        """
        if not self.points[HELD]:
            return False
        of_given = self.held_moved and self.held_given >= max(1, self.undecided_given)
        return of_given or self.points[HELD] >= self.points[UNDECIDED]

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

    @property
    def lacks(self) -> bool:
        """Whether an ability is missing and nothing else is known. Strongly perturbed weights leave
        no finite number, so that the ability is never needed there.
        """
        elsewhere = self.lacking_given and not self.undecided_given
        undecided = self.points[UNDECIDED] and not elsewhere
        return bool(self.unsupported) and not self.points[HELD] and not undecided

    @property
    def left_out(self) -> str:
        """How many points were exempt, and by which facts, as text."""
        counts = {words: count for words, count in self.exempt.items() if count}
        said = ", ".join(f"{count} since {words}" for words, count in counts.items())
        return f"{sum(counts.values())} points left out: {said}" if counts else ""

    @property
    def main_reason(self) -> str:
        """The reason of most undecided points; of two, the one at unperturbed weights."""
        return max(
            self.reasons,
            key=lambda reason: (self.reasons[reason], reason in self.as_given, reason),
        )


def conclude(name: str, law: Law, tally: Tally, declared: bool) -> Verdict:
    """Return the verdict if no violation was found. ``declared``: whether the target's domain is
    declared.
    """
    counts = tally.counts()
    if tally.error is not None:
        text, case = tally.error
        return Verdict(name, law.id, Status.ERROR, text, counts, counterexample=case)
    if tally.settled:
        unsure = counts.undecided
        undecided = f"{unsure} points undecided: {tally.main_reason}" if unsure else ""
        reason = "; ".join(filter(None, (tally.method, tally.left_out, undecided)))
        return Verdict(name, law.id, Status.HOLDS, reason, counts, tally.closest)
    if tally.stopped:
        return Verdict(name, law.id, Status.INCONCLUSIVE, tally.stopped, counts, tally.closest)
    if tally.lacks:
        return replace(silent(name, law, tally.unsupported[0]), counts=counts)
    reason = _nothing_decided(tally, declared)
    return Verdict(name, law.id, Status.INCONCLUSIVE, reason, counts, tally.closest)


def silent(name: str, law: Law, silence: NotJudged) -> Verdict:
    """The verdict of a law that does not apply to a target."""
    return Verdict(
        name,
        law.id,
        Status.NOT_APPLICABLE,
        silence.reason,
        blocked=silence.blocked,
        remedy=silence.remedy,
    )


def _nothing_decided(tally: Tally, declared: bool) -> str:
    counts = tally.counts()
    if counts.undecided:
        return tally.main_reason
    if counts.trivial:
        return "every point held trivially: nothing was checked"
    if tally.silenced or tally.left_out:
        return tally.silenced or tally.left_out
    hint = "" if declared else "; a domain can be declared (?domain=)"
    return f"no point could be measured: results are not finite, or too large to compare{hint}"
