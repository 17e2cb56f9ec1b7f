"""Coverage: how many of the applicable laws were judged, and why the others were not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flowref.model import Status, Verdict
from flowref.reporting.text import clean, number_of

DECIDED = (Status.HOLDS, Status.VIOLATED, Status.ADVICE, Status.ERROR)
OPEN = (Status.INCONCLUSIVE, Status.NOT_APPLICABLE)
# A reason that blocks fewer laws has no line of its own.
FEW = 3
OFFERS = "it offers "


def concerns(verdict: Verdict) -> bool:
    """Whether a verdict's law applies to the kind of its target."""
    return verdict.status is not Status.NOT_APPLICABLE or verdict.blocked


def put_to_the_test(verdicts: Iterable[Verdict]) -> tuple[int, int]:
    """Return how many laws were judged, and how many apply to the kind of target.

    >>> law = Verdict("t", "l", Status.NOT_APPLICABLE)
    >>> put_to_the_test([law, Verdict("t", "m", Status.HOLDS), Verdict("t", "n", Status.NOT_RUN)])
    (1, 2)
    """
    about = [verdict for verdict in verdicts if concerns(verdict)]
    return sum(verdict.status in DECIDED for verdict in about), len(about)


def share(verdicts: Iterable[Verdict]) -> str:
    """The same as text: "46 of 61 checks"."""
    judged, about = put_to_the_test(verdicts)
    return f"{judged:,} of {number_of(about, 'check')}"


@dataclass(frozen=True)
class Waiting:
    """Laws blocked by one reason; ``remedy``: the option that unblocks them; ``measured``: whether
    they were measured without a decision.
    """

    reason: str
    remedy: str
    measured: bool
    laws: tuple[str, ...]

    @property
    def line(self) -> str:
        """Count, reason and remedy on one line.

        >>> Waiting("it offers no inverse", "say ?inverse=NAME", False, ("a", "b", "c")).line
        '3 skipped: no inverse; say ?inverse=NAME'
        """
        remedy = f"; {self.remedy}" if self.remedy else ""
        return clean(f"{self.count}: {self.reason.removeprefix(OFFERS)}{remedy}")

    @property
    def count(self) -> str:
        """Number of laws, and whether they were measured."""
        return f"{len(self.laws)} {'undecided' if self.measured else 'skipped'}"


def skipped_check_lines(verdicts: Iterable[Verdict], hints: Iterable[str] = ()) -> list[str]:
    """Return a line for each reason that blocks laws, with the option that unblocks them.

    A hint of recognition ("no inverse found; it has reverse(z): say ?inverse=reverse") replaces the
    reason about the same ability.

    >>> law = Verdict("t", "l", Status.NOT_APPLICABLE, "it offers no inverse", blocked=True)
    >>> skipped_check_lines([law] * 3, ["no inverse found; say ?inverse=g"])
    ['3 skipped: no inverse found; say ?inverse=g']
    """
    left, found = list(hints), []
    for one in waiting(verdicts):
        name = one.reason.removeprefix(OFFERS)  # "no inverse"
        own = [hint for hint in left if name != one.reason and hint.startswith(f"{name} found")]
        left = [hint for hint in left if hint not in own]
        telling = [hint for hint in own if ";" in hint]
        found.append(f"{one.count}: {telling[0]}" if telling else one.line)
    return [clean(line) for line in (*left, *found)]


def waiting(verdicts: Iterable[Verdict], least: int = FEW) -> tuple[Waiting, ...]:
    """Return the reasons that block at least ``least`` laws, the most frequent first."""
    groups: dict[tuple[str, str, bool], list[str]] = {}
    for verdict in verdicts:
        if verdict.status in OPEN and concerns(verdict):
            reason = clean(verdict.reason) or "no reason given"
            key = (reason, verdict.remedy, verdict.status is Status.INCONCLUSIVE)
            groups.setdefault(key, []).append(verdict.law)
    found = [Waiting(*key, tuple(laws)) for key, laws in groups.items() if len(laws) >= least]
    return tuple(sorted(found, key=lambda one: (-len(one.laws), one.reason)))
