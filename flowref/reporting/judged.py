"""What was put to the test: of the laws about such things as a target is, those that were judged,
and why the others were not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flowref.model import Status, Verdict
from flowref.reporting.text import clean

DECIDED = (Status.HOLDS, Status.VIOLATED, Status.ADVICE, Status.ERROR)
OPEN = (Status.INCONCLUSIVE, Status.NOT_APPLICABLE)
# A reason that silences fewer laws than that has no line of its own.
FEW = 3
OFFERS = "it offers "


def concerns(verdict: Verdict) -> bool:
    """Whether the law of a verdict is about such things as its target."""
    return verdict.status is not Status.NOT_APPLICABLE or verdict.waits


def put_to_the_test(verdicts: Iterable[Verdict]) -> tuple[int, int]:
    """How many laws were judged, and how many there are about such things.

    >>> law = Verdict("t", "l", Status.NOT_APPLICABLE)
    >>> put_to_the_test([law, Verdict("t", "m", Status.HOLDS), Verdict("t", "n", Status.NOT_RUN)])
    (1, 2)
    """
    about = [verdict for verdict in verdicts if concerns(verdict)]
    return sum(verdict.status in DECIDED for verdict in about), len(about)


def share(verdicts: Iterable[Verdict]) -> str:
    """The same in words: "46 of 61 laws"."""
    judged, about = put_to_the_test(verdicts)
    return f"{judged} of {about} law{'' if about == 1 else 's'}"


@dataclass(frozen=True)
class Waiting:
    """Laws that one reason keeps from being put to the test; ``remedy``: what a user can say;
    ``measured``: whether they were, and nothing could be decided.
    """

    reason: str
    remedy: str
    measured: bool
    laws: tuple[str, ...]

    @property
    def line(self) -> str:
        """All of it on a line.

        >>> Waiting("it offers no inverse", "say ?inverse=NAME", False, ("a", "b", "c")).line
        'no inverse: 3 laws wait; say ?inverse=NAME'
        """
        what = "undecided" if self.measured else "wait" if len(self.laws) > 1 else "waits"
        remedy = f"; {self.remedy}" if self.remedy else ""
        return clean(f"{self.reason.removeprefix(OFFERS)}: {self.count} {what}{remedy}")

    @property
    def count(self) -> str:
        """How many laws, in words."""
        return f"{len(self.laws)} law{'' if len(self.laws) == 1 else 's'}"


def lines(verdicts: Iterable[Verdict], hints: Iterable[str] = ()) -> list[str]:
    """What keeps laws from being put to the test, and what a user can say: a line each.

    A hint of recognition ("no inverse found; it has reverse(z): say ?inverse=reverse") stands in
    place of the words for the ability that it is about.

    >>> law = Verdict("t", "l", Status.NOT_APPLICABLE, "it offers no inverse", waits=True)
    >>> lines([law] * 3, ["no inverse found; say ?inverse=g"])
    ['no inverse found; say ?inverse=g, 3 laws wait']
    """
    left, found = list(hints), []
    for one in waiting(verdicts):
        name = one.reason.removeprefix(OFFERS)  # "no inverse"
        own = [hint for hint in left if name != one.reason and hint.startswith(f"{name} found")]
        left = [hint for hint in left if hint not in own]
        telling = [hint for hint in own if ";" in hint]
        found.append(f"{telling[0]}, {one.count} wait" if telling else one.line)
    return [clean(line) for line in (*left, *found)]


def waiting(verdicts: Iterable[Verdict], least: int = FEW) -> tuple[Waiting, ...]:
    """The reasons that keep at least so many laws from being put to the test, the most frequent
    first.
    """
    groups: dict[tuple[str, str, bool], list[str]] = {}
    for verdict in verdicts:
        if verdict.status in OPEN and concerns(verdict):
            reason = clean(verdict.reason) or "no reason given"
            key = (reason, verdict.remedy, verdict.status is Status.INCONCLUSIVE)
            groups.setdefault(key, []).append(verdict.law)
    found = [Waiting(*key, tuple(laws)) for key, laws in groups.items() if len(laws) >= least]
    return tuple(sorted(found, key=lambda one: (-len(one.laws), one.reason)))
