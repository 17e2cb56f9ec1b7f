"""One report merged from several: the shards of one audit, or audits of different targets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import reduce

from flowref.baseline.entry import Entry
from flowref.baseline.failure_status import NOWHERE
from flowref.model import (
    KnownFailure,
    Problem,
    Recognized,
    ReportError,
    Standing,
    Status,
    Verdict,
)
from flowref.reporting.contents import FREE, Environment, Expense, LawNote, Omitted
from flowref.reporting.report import Report
from flowref.reporting.verdict_json import verdict_to_json

# Fields of the environment that may differ.
FREELY = ("command", "started", "seconds", "versions")
Pair = tuple[str, str]


def merge(parts: Sequence[tuple[str, Report]]) -> Report:
    """Return the report of which these, named, are parts: equal to that of the undivided audit, up
    to times.

    Raises: `ReportError` in one sentence if they do not belong together, one is missing, or they
    disagree on a pair.
    """
    if not parts:
        raise ReportError("there is nothing to merge; name two reports or more")
    reports = [report for _, report in parts]
    for name, report in parts[1:]:
        _require_alike(parts[0], (name, report))
    targets = _merged_target_names(parts)
    laws = _merged_law_notes(parts)
    verdicts = _verdicts(parts)
    ranks = {target: rank for rank, target in enumerate(targets)}
    order = {law: rank for rank, law in enumerate(laws)}
    missing = (len(ranks), len(order))
    ordered = sorted(
        verdicts.values(),
        key=lambda one: (ranks.get(one.target, missing[0]), order.get(one.law, missing[1])),
    )
    present = [target for target in targets if any(target in one.targets for one in reports)]
    return Report(
        _merged_environment([report.environment for report in reports]),
        tuple(laws.values()),
        tuple(present),
        tuple(ordered),
        _problems(reports, ranks),
        all(report.complete for report in reports),
        _omitted(reports),
        {name: one for name in present for one in _first_recognition(reports, name)},
        _merged_known_failures([report.known for report in reports]),
        _expenses(reports, present),
    )


def _require_alike(first: tuple[str, Report], other: tuple[str, Report]) -> None:
    """Raise `ReportError` unless two reports were made alike."""
    (one, this), (another, that) = first, other
    for item in fields(Environment):
        mine, yours = (getattr(report.environment, item.name) for report in (this, that))
        if item.name not in FREELY and mine != yours:
            raise _mismatch_error(one, another, item.name, mine, yours)
    mine, yours = dict(this.environment.versions), dict(that.environment.versions)
    for name in mine:
        if yours.get(name, mine[name]) != mine[name]:
            raise _mismatch_error(one, another, name, mine[name], yours[name])
    if (this.omitted is None) is not (that.omitted is None):
        brief, full = (another, one) if this.omitted is None else (one, another)
        raise ReportError(f"{brief} is brief and {full} is in full; merge reports of one kind")
    if (this.shard is None) is not (that.shard is None):
        part, whole = (another, one) if this.shard is None else (one, another)
        raise ReportError(
            f"{part} is a shard of an audit and {whole} is not; merge one or the other"
        )


def _mismatch_error(one: str, another: str, what: str, mine: object, yours: object) -> ReportError:
    return ReportError(
        f"{one} and {another} do not belong together: {what} {mine} in the one, {yours} in the "
        "other; audit all parts alike"
    )


def _merged_target_names(parts: Sequence[tuple[str, Report]]) -> list[str]:
    """The targets in the order of the audit. Raises: `ReportError` if a shard is missing."""
    name, first = parts[0]
    if first.shard is None:
        return list(dict.fromkeys(target for _, report in parts for target in report.targets))
    whole = (first.shard.count, first.shard.targets)
    for other, report in parts[1:]:
        assert report.shard is not None
        if (report.shard.count, report.shard.targets) != whole:
            raise ReportError(
                f"{name} and {other} are shards of different audits; merge those of one command"
            )
    seen = {report.shard.index for _, report in parts if report.shard is not None}
    absent = sorted(set(range(1, first.shard.count + 1)) - seen)
    if absent:
        listed = ", ".join(map(str, absent))
        noun = "shard" if len(absent) == 1 else "shards"
        raise ReportError(
            f"{noun} {listed} of {first.shard.count} missing; merge all of them at once"
        )
    return list(first.shard.targets)


def _merged_law_notes(parts: Sequence[tuple[str, Report]]) -> dict[str, LawNote]:
    laws: dict[str, tuple[str, LawNote]] = {}
    for name, report in parts:
        for note in report.laws:
            first, there = laws.setdefault(note.id, (name, note))
            if there != note:
                raise _mismatch_error(
                    first, name, f"the law {note.id} of version", there.version, note.version
                )
    return {law: laws[law][1] for law in sorted(laws)}


def _verdicts(parts: Sequence[tuple[str, Report]]) -> dict[Pair, Verdict]:
    """The verdict on each pair. Raises: `ReportError` if two parts disagree."""
    chosen: dict[Pair, tuple[str, Verdict]] = {}
    for name, report in parts:
        for verdict in report.verdicts:
            pair = verdict.target, verdict.law
            first, there = chosen.setdefault(pair, (name, verdict))
            if there.status is Status.NOT_RUN:
                chosen[pair] = name, verdict
            elif verdict.status is not Status.NOT_RUN and not _equal_verdicts(there, verdict):
                difference = (
                    f"{there.status} and {verdict.status}"
                    if there.status is not verdict.status
                    else f"{verdict.status}, with other numbers"
                )
                raise ReportError(
                    f"{first} and {name} disagree on {verdict.law} in {verdict.target}: {difference}"
                )
    return {pair: verdict for pair, (_, verdict) in chosen.items()}


def _equal_verdicts(one: Verdict, other: Verdict) -> bool:
    """Equality up to times; nan equals nan."""
    first, second = one.without_time(), other.without_time()
    return first == second or verdict_to_json(first) == verdict_to_json(second)


def _merged_environment(parts: Sequence[Environment]) -> Environment:
    """The environment of the whole: the earliest start, all seconds, all commands."""
    versions = dict(pair for part in parts for pair in part.versions)
    started = min((part.started for part in parts if part.started), default="")
    commands = list(dict.fromkeys(part.command for part in parts if part.command))
    return replace(
        parts[0],
        versions=tuple(versions.items()),
        command="; ".join(commands),
        started=started,
        seconds=sum(part.seconds for part in parts),
    )


def _problems(reports: Sequence[Report], ranks: Mapping[str, int]) -> tuple[Problem, ...]:
    """The distinct problems: those of specs first, then of targets in their order."""
    found = dict.fromkeys(problem for report in reports for problem in report.problems)
    return tuple(sorted(found, key=lambda problem: ranks.get(problem.spec, -1)))


def _omitted(reports: Sequence[Report]) -> Omitted | None:
    counted = [report.omitted for report in reports if report.omitted is not None]
    if not counted:
        return None
    return Omitted(sum(one.points for one in counted), sum(one.undecided for one in counted))


def _first_recognition(reports: Iterable[Report], target: str) -> list[Recognized]:
    """What a target was recognized as, by the first part that contains it: one or none."""
    return [report.recognized[target] for report in reports if target in report.recognized][:1]


def _expenses(reports: Sequence[Report], targets: Iterable[str]) -> dict[str, Expense]:
    sums = {
        target: reduce(
            lambda total, report: total + report.expenses.get(target, FREE), reports, FREE
        )
        for target in targets
    }
    return {target: total for target, total in sums.items() if total != FREE}


def _merged_known_failures(parts: Sequence[Sequence[KnownFailure]]) -> tuple[KnownFailure, ...]:
    """The known failures of the whole. An entry about several targets is fixed if it fails in no
    part.
    """
    every = [one for part in parts for one in part]
    open_ones = [one for one in every if one.detail.startswith(NOWHERE)]
    listed = [one for one in dict.fromkeys(every) if one not in open_ones]
    for entry in dict.fromkeys(replace(one, detail="") for one in open_ones):
        covers = Entry(entry.target, entry.law, "").covers
        failing = any(one.law == entry.law and covers(one.target) for one in listed)
        decided = all(
            one.detail == NOWHERE for one in open_ones if replace(one, detail="") == entry
        )
        if decided and not failing:
            listed.append(replace(entry, standing=Standing.FIXED, detail="it fails nowhere"))
    return tuple(sorted(listed, key=lambda one: (one.target, one.law)))
