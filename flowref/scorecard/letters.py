"""Which letter stands for the outcome of a pair on a scorecard, and what it says in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flowref.model import Standing, Status, Verdict
from flowref.reporting.causes import by_target, explained
from flowref.reporting.report import Report

ABSENT = "."


@dataclass(frozen=True)
class OutcomeLetter:
    """A letter of the matrix: its words, its icon, and its class in the style sheet."""

    letter: str
    brief: str
    word: str
    icon: str
    style: str


# The gravest first; a group of pairs wears the icon of the gravest in it.
OUTCOMES = (
    OutcomeLetter("C", "crashed", "crashed", "!", "broken"),
    OutcomeLetter("T", "timed out", "timed out", "!", "broken"),
    OutcomeLetter("E", "broke", "error: the check broke", "!", "broken"),
    OutcomeLetter("V", "violated", "violated", "✕", "violated"),
    OutcomeLetter("e", "explained", "violated, which another violation explains", "↳", "explained"),
    OutcomeLetter("k", "known", "known failure", "◊", "known"),
    OutcomeLetter("m", "minor", "minor: below the rounding of single precision", "·", "advice"),
    OutcomeLetter("a", "advice", "advice", "▲", "advice"),
    OutcomeLetter("i", "undecided", "inconclusive", "?", "unsure"),
    OutcomeLetter("o", "not run", "not run", "○", "idle"),
    OutcomeLetter("h", "hold", "holds", "✓", "holds"),
    OutcomeLetter(
        "w", "wait", "skipped: it applies, and something that it needs is missing", "…", "waits"
    ),
    OutcomeLetter("-", "n/a", "not applicable: about other things", "–", "idle"),
)
BY_LETTER = {outcome.letter: outcome for outcome in OUTCOMES}
LETTERS = {
    Status.HOLDS: "h",
    Status.VIOLATED: "V",
    Status.ADVICE: "a",
    Status.INCONCLUSIVE: "i",
    Status.ERROR: "E",
    Status.TIMEOUT: "T",
    Status.CRASHED: "C",
    Status.NOT_RUN: "o",
}
FAILURES = "CTEVek"


def letters(report: Report) -> Iterator[tuple[Verdict, str]]:
    """Every verdict with its letter: known failures and violations that others explain have their
    own.
    """
    known = {(one.target, one.law) for one in report.known if one.standing is Standing.KNOWN}
    causes = {target: explained(group) for target, group in by_target(report.verdicts).items()}
    for verdict in report.verdicts:
        if verdict.status is Status.NOT_APPLICABLE:
            yield verdict, "w" if verdict.waits else "-"
            continue
        letter = LETTERS[verdict.status]
        if letter in FAILURES and (verdict.target, verdict.law) in known:
            letter = "k"
        elif verdict.status is Status.VIOLATED and verdict.law in causes[verdict.target]:
            letter = "e"
        elif verdict.minor:
            letter = "m"
        yield verdict, letter
