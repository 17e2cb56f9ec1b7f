"""The outcomes of verdicts in a report: which fail, how grave they are, how they are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from flowref.model import KnownFailure, Standing, Status, Verdict
from flowref.reporting.causes import by_target, explained

BROKEN = (Status.ERROR, Status.TIMEOUT, Status.CRASHED)
FAILING = (Status.VIOLATED, *BROKEN)
# The gravest first.
SEVERITY = (
    Status.CRASHED,
    Status.TIMEOUT,
    Status.ERROR,
    Status.VIOLATED,
    Status.ADVICE,
    Status.INCONCLUSIVE,
    Status.NOT_RUN,
    Status.NOT_APPLICABLE,
    Status.HOLDS,
)
LABELS = {
    Status.HOLDS: "passed",
    Status.VIOLATED: "VIOLATED",
    Status.CRASHED: "CRASHED",
    Status.TIMEOUT: "TIMEOUT",
    Status.ERROR: "ERROR",
    Status.ADVICE: "advice",
    Status.INCONCLUSIVE: "inconclusive",
    Status.NOT_RUN: "not run",
}
# Violations explained by another one, and those below single precision; laws that need an ability the
# target lacks, and laws of another kind of target.
EXPLAINED, MINOR, SKIPPED, ELSEWHERE = "explained", "minor", "skipped", "n/a"
# Standings of known failures that do not count as failures.
STANDINGS = ("known", "fixed")
BROKE = tuple(LABELS[status] for status in BROKEN)
ORDER = (
    "passed", "VIOLATED", MINOR, EXPLAINED, *BROKE, *STANDINGS, "advice", "inconclusive", "not run", SKIPPED, ELSEWHERE,
)  # fmt: skip


def labels(verdicts: Iterable[Verdict]) -> list[str]:
    """Return the outcome under which each verdict is counted; a violation that another one of its
    target explains is counted separately.

    >>> labels([Verdict("t", "l", Status.NOT_APPLICABLE, blocked=True)])
    ['skipped']
    """
    listed = list(verdicts)
    causes = {target: explained(group) for target, group in by_target(listed).items()}
    return [
        EXPLAINED if verdict.law in causes[verdict.target] else _outcome_label(verdict)
        for verdict in listed
    ]


def fails(verdict: Verdict) -> bool:
    """Whether a verdict counts for the exit code: a violation that is not minor, an error, a crash
    or a time-out.

    >>> fails(Verdict("t", "l", Status.VIOLATED)), fails(Verdict("t", "l", Status.VIOLATED, minor=True))
    (True, False)
    """
    return verdict.status in FAILING and not verdict.minor


def _outcome_label(verdict: Verdict) -> str:
    if verdict.minor:
        return MINOR
    if verdict.status is Status.NOT_APPLICABLE:
        return SKIPPED if verdict.blocked else ELSEWHERE
    return LABELS[verdict.status]


def outcome_counts(verdicts: Iterable[Verdict], known: Iterable[KnownFailure] = ()) -> Counter[str]:
    """Return the number of verdicts by outcome; failures ``known`` as such count under that."""
    known = tuple(known)
    accepted = {(k.target, k.law) for k in known if k.standing is Standing.KNOWN}
    counts = Counter(
        labels(one for one in verdicts if not fails(one) or (one.target, one.law) not in accepted)
    )
    standings = Counter(str(one.standing).lower() for one in known)
    return counts + Counter({word: standings[word] for word in STANDINGS})


def tally(verdicts: Iterable[Verdict], known: Iterable[KnownFailure] = ()) -> str:
    """Return the nonzero counts by outcome as text, without laws of another kind of target.

    >>> tally([Verdict("t", "l", Status.HOLDS, proof="for all inputs"), Verdict("t", "m", Status.NOT_RUN)])
    '1 passed (1 proved), 1 not run'
    """
    verdicts = list(verdicts)
    counts = outcome_counts(verdicts, known)
    proved = sum(bool(one.proof) for one in verdicts)
    words = {word: f"{counts[word]} {word}" for word in ORDER if counts[word] and word != ELSEWHERE}
    if proved:
        words[LABELS[Status.HOLDS]] += f" ({proved} proved)"
    return ", ".join(words.values()) or "nothing checked"


def violations(verdicts: Iterable[Verdict]) -> str:
    """Return the number of violations, and of those that others explain, as text.

    >>> violations([Verdict("t", "l", Status.VIOLATED)])
    '1 violation'
    """
    counts = Counter(labels(verdicts))
    own, others = counts[LABELS[Status.VIOLATED]], counts[EXPLAINED]
    text = f"{own or 'no'} violation{'' if own == 1 else 's'}"
    text += f", {others} more explained by {'it' if own == 1 else 'them'}" if others else ""
    return f"{text}, {counts[MINOR]} minor" if counts[MINOR] else text
