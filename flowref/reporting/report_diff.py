"""Comparison of two reports, as one frozen value.

Pairs (target, law) are compared by status and by margin. A change between failing (violated, error,
time-out, crash) and not failing, between holding and advice, or of a margin, is worse or better;
any other change of an outcome is neither. Durations, versions of laws, free text and the
environment are no changes.
"""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from flowref.model import Evidence, KnownFailure, ReportError, Status, Verdict
from flowref.reporting.circumstances import Difference, report_differences
from flowref.reporting.outcomes import FAILING, SEVERITY, fails
from flowref.reporting.report import Report
from flowref.reporting.severity import KINDS, kind


class Trend(enum.StrEnum):
    """The direction of a change."""

    WORSE = "worse"
    BETTER = "better"
    OTHER = "other"

    @property
    def reverse(self) -> Trend:
        """The trend of the same change from new to old."""
        return {Trend.WORSE: Trend.BETTER, Trend.BETTER: Trend.WORSE}.get(self, self)


@dataclass(frozen=True)
class PairChange:
    """One law on one target; None for a report without the pair."""

    target: str
    law: str
    old: Verdict | None
    new: Verdict | None
    trend: Trend = Trend.OTHER


@dataclass(frozen=True)
class WholeChange:
    """A target or law that only one report has, with its verdicts; or a failure to load. ``kind``:
    ``target``, ``law`` or ``loading``; ``message``: why loading failed.
    """

    kind: str
    name: str
    appeared: bool
    verdicts: tuple[Verdict, ...] = ()
    message: str = ""
    trend: Trend = Trend.OTHER


@dataclass(frozen=True)
class StandingChange:
    """A known failure with another standing; None for a report in which it is not known."""

    target: str
    law: str
    old: KnownFailure | None
    new: KnownFailure | None


@dataclass(frozen=True)
class ReportComparison:
    """The changes from an old report to a new one.

    ``unchanged`` counts pairs; among them are ``drifted``: (law, number of pairs with other
    numbers), and ``reworded``: failures that changed in text only. ``standings``: known failures
    with another standing.
    """

    differences: tuple[Difference, ...] = ()
    pairs: tuple[PairChange, ...] = ()
    wholes: tuple[WholeChange, ...] = ()
    unchanged: int = 0
    drifted: tuple[tuple[str, int], ...] = ()
    reworded: tuple[PairChange, ...] = ()
    standings: tuple[StandingChange, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything changed."""
        return bool(self.pairs or self.wholes)

    def count(self, trend: Trend) -> int:
        """Number of changes with a trend; a whole target or law is one."""
        trends = [change.trend for change in self.pairs] + [change.trend for change in self.wholes]
        return trends.count(trend)


def compare(
    old: Report, new: Report, *, factor: float = 10.0, all_margins: bool = False
) -> ReportComparison:
    """Return the changes from ``old`` to ``new``; the order of verdicts does not matter.

    A margin counts as changed if it grew or shrank by more than ``factor`` in pairs that are
    violated or advised against in both. Other margins depend on the draw; ``all_margins`` compares
    them too, from the level of rounding upwards. If one report is brief, both are compared in
    brief.

    Raises: `ReportError` for ``all_margins`` of a brief report.
    """
    circumstances = report_differences(old, new)
    if brief := [report.omitted is not None for report in (old, new)].count(True):
        if all_margins:
            one_or_both = "one report is" if brief == 1 else "both reports are"
            raise ReportError(
                f"{one_or_both} brief and without the margins of laws that hold; compare reports "
                "in full, or leave out --all-margins"
            )
        old, new = old.brief(), new.brief()
    before, after = _by_pair(old.verdicts), _by_pair(new.verdicts)
    targets = _target_names(old), _target_names(new)
    laws = _law_ids(old), _law_ids(new)
    wholes = [
        *_loading(old, new),
        *_whole_changes(
            "target",
            targets,
            old,
            new,
            {problem.spec for problem in (*old.problems, *new.problems)},
        ),
        *_whole_changes("law", laws, old, new, set()),
    ]
    both = targets[0] & targets[1], laws[0] & laws[1]
    pairs, reworded = [], []
    unchanged, drifted = 0, Counter[str]()
    for key in sorted(before.keys() | after.keys()):
        target, law = key
        if target not in both[0] or law not in both[1]:
            continue
        one, other = before.get(key), after.get(key)
        trend = _trend(one, other, factor, all_margins)
        if trend is not None:
            pairs.append(PairChange(target, law, one, other, trend))
            continue
        assert one is not None
        assert other is not None
        unchanged += 1
        if _verdict_numbers(one) != _verdict_numbers(other):
            drifted[law] += 1
        if one.status in FAILING and (one.reason, one.part) != (other.reason, other.part):
            reworded.append(PairChange(target, law, one, other))
    return ReportComparison(
        circumstances,
        tuple(sorted(pairs, key=_rank)),
        tuple(sorted(wholes, key=lambda whole: (list(Trend).index(whole.trend), whole.appeared))),
        unchanged,
        tuple(sorted(drifted.items())),
        tuple(reworded),
        tuple(_standings(old, new)),
    )


def renamed_report(report: Report, names: Mapping[str, str]) -> Report:
    """The report with targets and laws renamed, old name -> new name."""
    if not names:
        return report

    def name(old: str) -> str:
        return names.get(old, old)

    return replace(
        report,
        laws=tuple(
            {name(note.id): replace(note, id=name(note.id)) for note in report.laws}.values()
        ),
        targets=tuple(dict.fromkeys(map(name, report.targets))),
        verdicts=tuple(
            replace(verdict, target=name(verdict.target), law=name(verdict.law))
            if verdict.target in names or verdict.law in names
            else verdict
            for verdict in report.verdicts
        ),
        problems=tuple(replace(problem, spec=name(problem.spec)) for problem in report.problems),
        known=tuple(
            replace(one, target=name(one.target), law=name(one.law)) for one in report.known
        ),
    )


def growth(old: Evidence, new: Evidence, *, clipped: bool = False) -> float:
    """Return the factor by which the margin grew; 1 if neither is resolvable.

    ``clipped``: residuals below the level of rounding count as that level. If nothing is allowed,
    residuals are compared. nan is larger than any finite number; its ratio to infinity is nan.

    >>> growth(Evidence(1e-3, 1e-6), Evidence(1e-1, 1e-6))
    100.0
    """
    one, other = (_margin(evidence, clipped) for evidence in (old, new))
    if math.isinf(one) and math.isinf(other) and not (old.allowed or new.allowed):
        one, other = old.residual, new.residual
    if one == other or (math.isnan(one) and math.isnan(other)):
        return 1.0
    if math.isnan(one) or math.isnan(other):
        rest = other if math.isnan(one) else one
        return math.nan if math.isinf(rest) else 0.0 if math.isnan(one) else math.inf
    return 0.0 if math.isinf(one) else other / one if one else math.inf


def _margin(evidence: Evidence, clipped: bool) -> float:
    if not clipped or not evidence.allowed or math.isnan(evidence.residual):
        return evidence.margin
    return (
        max(evidence.residual, evidence.explained, evidence.unit * evidence.scale)
        / evidence.allowed
    )


def _trend(
    old: Verdict | None, new: Verdict | None, factor: float, all_margins: bool
) -> Trend | None:
    """The trend of a pair; None if it did not change."""
    if old is None or new is None:
        return Trend.OTHER
    if fails(old) is not fails(new):
        return Trend.WORSE if fails(new) else Trend.BETTER
    if old.status is not new.status:
        if {old.status, new.status} == {Status.HOLDS, Status.ADVICE}:
            return Trend.WORSE if new.status is Status.ADVICE else Trend.BETTER
        return Trend.OTHER
    above = old.status in (Status.VIOLATED, Status.ADVICE)
    if old.evidence is None or new.evidence is None or not (above or all_margins):
        return None
    ratio = growth(old.evidence, new.evidence, clipped=not above)
    if math.isnan(ratio):
        return Trend.OTHER
    return Trend.WORSE if ratio > factor else Trend.BETTER if ratio < 1 / factor else None


def _by_pair(verdicts: Iterable[Verdict]) -> dict[tuple[str, str], Verdict]:
    """The verdicts by pair; if laws were merged, the gravest one."""
    pairs: dict[tuple[str, str], Verdict] = {}
    for verdict in verdicts:
        other = pairs.setdefault((verdict.target, verdict.law), verdict)
        if other is not verdict:
            pairs[verdict.target, verdict.law] = min(other, verdict, key=_gravity)
    return pairs


def _gravity(verdict: Verdict) -> tuple[int, float, str]:
    margin = verdict.evidence.margin if verdict.evidence is not None else 0.0
    return (
        SEVERITY.index(verdict.status),
        -math.inf if math.isnan(margin) else -margin,
        verdict.reason,
    )


def _rank(change: PairChange) -> tuple[int, int, int, int, str, float, str]:
    """Sort key: trend, new and old status, what the law's violation makes wrong, law, nats per
    point, target.
    """
    sides = change.old, change.new
    old, new = (SEVERITY.index(v.status) if v is not None else -1 for v in sides)
    nats = max((v.size.nats for v in sides if v is not None and v.size is not None), default=0.0)
    trend, gravity = list(Trend).index(change.trend), KINDS.index(kind(change.law))
    return trend, new, old, gravity, change.law, -nats, change.target


def _target_names(report: Report) -> set[str]:
    return {*report.targets, *(verdict.target for verdict in report.verdicts)}


def _law_ids(report: Report) -> set[str]:
    return {*(note.id for note in report.laws), *(verdict.law for verdict in report.verdicts)}


def _whole_changes(
    kind: str, names: tuple[set[str], set[str]], old: Report, new: Report, without: set[str]
) -> list[WholeChange]:
    changes = []
    for appeared, report, own in (
        (False, old, names[0] - names[1]),
        (True, new, names[1] - names[0]),
    ):
        verdicts: dict[str, list[Verdict]] = {name: [] for name in sorted(own - without)}
        for verdict in report.verdicts:
            name = verdict.target if kind == "target" else verdict.law
            if name in verdicts:
                verdicts[name].append(verdict)
        for name, group in verdicts.items():
            ordered = sorted(
                group, key=lambda verdict: (_gravity(verdict), verdict.target, verdict.law)
            )
            changes.append(WholeChange(kind, name, appeared, tuple(ordered)))
    return changes


def _loading(old: Report, new: Report) -> list[WholeChange]:
    """The specs that failed to load in only one of the audits."""
    before, after = (
        {problem.spec: problem.message for problem in report.problems} for report in (old, new)
    )
    appeared = [
        WholeChange("loading", spec, True, message=after[spec], trend=Trend.WORSE)
        for spec in sorted(after.keys() - before.keys())
    ]
    gone = [
        WholeChange("loading", spec, False, message=before[spec], trend=Trend.BETTER)
        for spec in sorted(before.keys() - after.keys())
    ]
    return appeared + gone


def _standings(old: Report, new: Report) -> Iterator[StandingChange]:
    before, after = ({(one.target, one.law): one for one in report.known} for report in (old, new))
    for key in sorted(before.keys() | after.keys()):
        one, other = before.get(key), after.get(key)
        if one is None or other is None or one.standing is not other.standing:
            yield StandingChange(*key, one, other)


def _verdict_numbers(verdict: Verdict) -> str:
    """The numbers of a verdict, comparable even with nan."""
    return repr((verdict.evidence, verdict.counts, verdict.counterexample))
