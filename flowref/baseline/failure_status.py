"""The status of known failures, given an audit and their pinned cases measured again."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Mapping

from flowref.baseline.entry import Baseline, Entry
from flowref.model import OTHER_WEIGHTS, KnownFailure, Standing, Status, Verdict
from flowref.reporting.numbers import rounded_text
from flowref.reporting.outcomes import FAILING
from flowref.reporting.report_diff import growth

ACCUSING = (Status.VIOLATED, Status.ADVICE)
# Factor by which the margin of a pinned case may grow without max-margin.
FACTOR = 10.0
Pair = tuple[str, str]
# Detail of an entry about several targets, none of which fails in this shard.
NOWHERE = "it fails nowhere in this shard"


def overlay(
    baseline: Baseline,
    verdicts: Iterable[Verdict],
    replayed: Mapping[Pair, Verdict],
    exhausted: Callable[[Entry], bool] = lambda entry: True,
    today: datetime.date | None = None,
    *,
    part: bool = False,
) -> tuple[KnownFailure, ...]:
    """Return the status of each entry that matches a verdict.

    ``replayed``: the pinned cases, measured again, by pair; ``exhausted``: whether the verdicts
    include all targets of an entry; ``part``: whether they are a shard of an audit, in which no
    entry about several targets can be fixed. An entry about several targets is listed for each that
    fails, and is fixed when none does.
    """
    groups: dict[Entry, list[Verdict]] = {}
    for verdict in verdicts:
        entry = baseline.entry(verdict.target, verdict.law)
        if entry is not None:
            groups.setdefault(entry, []).append(verdict)
    listed: list[KnownFailure] = []
    for entry, group in groups.items():
        stands = []
        for verdict in group:
            pair = verdict.target, verdict.law
            pinned = baseline.pinned(entry)
            own = pinned if pinned is not None and (pinned.target, pinned.law) == pair else None
            standing, detail = stand(entry, own, verdict, replayed.get(pair), today)
            stands.append(known_failure(entry, verdict.target, standing, detail))
        failing = [
            one for one in stands if one.standing not in (Standing.FIXED, Standing.UNDECIDED)
        ]
        open_ones = [one for one in stands if one.standing is Standing.UNDECIDED]
        if failing:
            listed += failing
        elif not entry.is_glob:
            listed += stands
        elif part and exhausted(entry):
            rest = ", and something is undecided" if open_ones else ""
            listed.append(known_failure(entry, entry.target, Standing.UNDECIDED, NOWHERE + rest))
        elif not open_ones and exhausted(entry):
            listed.append(known_failure(entry, entry.target, Standing.FIXED, "it fails nowhere"))
    return tuple(sorted(listed, key=lambda one: (one.target, one.law)))


def known_failure(entry: Entry, target: str, standing: Standing, detail: str = "") -> KnownFailure:
    """An entry with its status for one target."""
    expires = "" if entry.expires is None else entry.expires.isoformat()
    return KnownFailure(target, entry.law, standing, entry.reason, detail, entry.issue, expires)


def stand(
    entry: Entry,
    pinned: Verdict | None,
    found: Verdict | None,
    replayed: Verdict | None,
    today: datetime.date | None = None,
) -> tuple[Standing, str]:
    """Return the status of an entry for one pair, and the reason. ``pinned``: its case as recorded;
    ``found``: the verdict of a new search, if any; ``replayed``: the case measured again.
    """
    if pinned is not None and replayed is not None:
        standing, detail = _by_case(entry, pinned, found, replayed)
    elif found is not None:
        standing, detail = _by_search(entry, found)
    else:
        return Standing.UNDECIDED, "it has no pinned case; an audit shows whether it fails"
    if standing in (Standing.KNOWN, Standing.CHANGED) and _expired(entry, today):
        since = f"accepted until {entry.expires}, which has passed: it is new again"
        return Standing.EXPIRED, "; ".join(filter(None, (since, detail)))
    return standing, detail


def _expired(entry: Entry, today: datetime.date | None) -> bool:
    return entry.expires is not None and entry.expires < (today or datetime.date.today())


def _by_case(
    entry: Entry, pinned: Verdict, found: Verdict | None, replayed: Verdict
) -> tuple[Standing, str]:
    elsewhere = found is not None and _failure_kind(found) is not None
    if replayed.status is Status.HOLDS:
        if elsewhere:
            return Standing.CHANGED, "its pinned case passes, and another input fails"
        others = replayed.reason if OTHER_WEIGHTS in replayed.reason else ""
        return Standing.FIXED, "; ".join(filter(None, ("its pinned case passes", others)))
    if _failure_kind(replayed) is None:
        reason = replayed.reason or f"it is {replayed.status}"
        if elsewhere:
            return (
                Standing.CHANGED,
                f"its pinned case can no longer be measured ({reason}), and another input fails",
            )
        return Standing.UNDECIDED, f"its pinned case can no longer be measured: {reason}"
    if _failure_kind(replayed) != _failure_kind(pinned):
        return (
            Standing.CHANGED,
            f"it was {_failure_text(pinned)}, and its case is {_failure_text(replayed)} now",
        )
    if worse := _worse(entry, pinned, replayed):
        return Standing.CHANGED, worse
    if found is not None and elsewhere:
        if _failure_kind(found) != _failure_kind(pinned):
            return (
                Standing.CHANGED,
                f"it was {_failure_text(pinned)}, and another input is {_failure_text(found)}",
            )
        if worse := _above(entry, found):
            return Standing.CHANGED, worse
    return Standing.KNOWN, ""


def _by_search(entry: Entry, found: Verdict) -> tuple[Standing, str]:
    if _failure_kind(found) is not None:
        if (kind := _failure_kind(found) or "").partition(":")[0] != entry.outcome:
            return Standing.CHANGED, f"it was {entry.outcome}, and is {kind} now"
        worse = _above(entry, found)
        return (Standing.CHANGED, worse) if worse else (Standing.KNOWN, "")
    if found.status is Status.HOLDS:
        return Standing.FIXED, "the law holds"
    if found.status is Status.NOT_APPLICABLE and not found.blocked:
        return Standing.FIXED, f"the law no longer applies: {found.reason}"
    return Standing.UNDECIDED, found.reason or f"it is {found.status}"


def _failure_kind(verdict: Verdict) -> str | None:
    """How a verdict fails; None if it does not. Advice counts as a violation, and errors differ by
    their exception.
    """
    if verdict.status in ACCUSING:
        return str(Status.VIOLATED)
    if verdict.status not in FAILING:
        return None
    if verdict.status is not Status.ERROR:
        return str(verdict.status)
    raised = verdict.reason.removeprefix("it raises ").partition(":")[0]
    return f"{verdict.status}: {raised}"


def _failure_text(verdict: Verdict) -> str:
    return (_failure_kind(verdict) or str(verdict.status)).replace(": ", " (", 1) + (
        ")" if verdict.status is Status.ERROR else ""
    )


def _worse(entry: Entry, pinned: Verdict, replayed: Verdict) -> str:
    """Why the pinned case is worse than recorded; empty if it is not."""
    if entry.max_margin is not None:
        return _above(entry, replayed)
    old, new = pinned.evidence, replayed.evidence
    if old is None or new is None:
        return ""
    ratio = growth(old, new)
    if ratio <= FACTOR or math.isnan(ratio):
        return ""
    return (
        f"its pinned case is off by {rounded_text(new.residual)} (allowed {rounded_text(new.allowed)}), and "
        f"was by {rounded_text(old.residual)} (allowed {rounded_text(old.allowed)})"
    )


def _above(entry: Entry, verdict: Verdict) -> str:
    if entry.max_margin is None or verdict.evidence is None:
        return ""
    margin = verdict.evidence.margin
    if margin <= entry.max_margin:
        return ""
    return f"its margin is {rounded_text(margin)}, above max-margin = {entry.max_margin:g}"
