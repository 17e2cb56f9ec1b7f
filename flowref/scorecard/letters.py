"""The letters of outcomes on a scorecard, with their texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flowref.model import Standing, Status, Verdict
from flowref.reporting.causes import by_target, explained
from flowref.reporting.report import Report

ABSENT = "."


@dataclass(frozen=True)
class OutcomeLetter:
    """A letter of the matrix: its texts, its icon, and its CSS class."""

    letter: str
    brief: str
    word: str
    icon: str
    style: str


# The gravest first; a group of pairs has the icon of its gravest outcome.
OUTCOMES = (
    OutcomeLetter("C", "crashed", "crashed", "!", "broken"),
    OutcomeLetter("T", "timed out", "timed out", "!", "broken"),
    OutcomeLetter("E", "broke", "error: the check broke", "!", "broken"),
    OutcomeLetter("V", "violated", "violated", "✕", "violated"),
    OutcomeLetter("e", "explained", "violated, explained by another violation", "↳", "explained"),
    OutcomeLetter("k", "known", "known failure", "◊", "known"),
    OutcomeLetter("m", "minor", "minor: below the rounding of single precision", "·", "advice"),
    OutcomeLetter("a", "advice", "advice", "▲", "advice"),
    OutcomeLetter("i", "undecided", "inconclusive", "?", "unsure"),
    OutcomeLetter("o", "not run", "not run", "○", "idle"),
    OutcomeLetter("h", "hold", "holds", "✓", "holds"),
    OutcomeLetter(
        "w", "skipped", "skipped: it applies, but something it needs is missing", "…", "skipped"
    ),
    OutcomeLetter("-", "n/a", "not applicable to this target", "–", "idle"),
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
    """Yield every verdict with its letter; known failures and explained violations have their own."""
    known = {(one.target, one.law) for one in report.known if one.standing is Standing.KNOWN}
    causes = {target: explained(group) for target, group in by_target(report.verdicts).items()}
    for verdict in report.verdicts:
        if verdict.status is Status.NOT_APPLICABLE:
            yield verdict, "w" if verdict.blocked else "-"
            continue
        letter = LETTERS[verdict.status]
        if letter in FAILURES and (verdict.target, verdict.law) in known:
            letter = "k"
        elif verdict.status is Status.VIOLATED and verdict.law in causes[verdict.target]:
            letter = "e"
        elif verdict.minor:
            letter = "m"
        yield verdict, letter
