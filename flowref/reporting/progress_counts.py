"""The progress of an audit: applicable checks done, and violations as the report counts them."""

from __future__ import annotations

from flowref.model import Status, Verdict
from flowref.reporting.coverage import concerns
from flowref.reporting.outcomes import LABELS, labels
from flowref.reporting.text import number_of


class Count:
    """Counts verdicts as they come. ``total``: expected checks, less those that turn out not to
    apply; ``done``: finished ones.
    """

    def __init__(self, total: int = 0) -> None:
        self.total, self.done = total, 0
        self._judged: dict[str, list[Verdict]] = {}
        self._violated: dict[str, int] = {}

    def add(self, verdict: Verdict) -> None:
        """Count one verdict."""
        if not concerns(verdict):
            self.total -= 1
            return
        self.done += 1
        own = self._judged.setdefault(verdict.target, [])
        own.append(verdict)
        if verdict.status is Status.VIOLATED or verdict.target in self._violated:
            self._violated[verdict.target] = labels(own).count(LABELS[Status.VIOLATED])

    @property
    def violated(self) -> int:
        """Number of violations that no other one explains."""
        return sum(self._violated.values())

    def __str__(self) -> str:
        """How far it is.

        >>> count = Count(3)
        >>> count.add(Verdict("t", "l", Status.HOLDS))
        >>> count.add(Verdict("t", "m", Status.NOT_APPLICABLE))
        >>> str(count)
        '1 check done, at most 1 left'
        """
        suspected = self.violated  # fewer where a later violation explains them
        found = f", {number_of(suspected, 'suspected bug')}" if suspected else ""
        return f"{number_of(self.done, 'check')} done, at most {self.total - self.done} left{found}"
