"""Which pair runs next: target by target, a probe first, and no more after a target broke twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from flowref.model import Law, Status, Target, Verdict

STRIKES = 2
STRIKING = (Status.TIMEOUT, Status.CRASHED)


@dataclass(frozen=True)
class Pair:
    """One target and one law; ``law`` None is the probe: load the target and call it once."""

    target: Target
    law: Law | None

    def __str__(self) -> str:
        return f"{self.target} {self.law.id if self.law else '(loading)'}"

    def verdict(self, status: Status, reason: str, seconds: float = 0.0) -> Verdict:
        """A verdict on this pair that no measurement stands behind."""
        assert self.law is not None
        return Verdict(
            str(self.target),
            self.law.id,
            status,
            reason,
            seconds=seconds,
            law_version=self.law.version,
            force=self.law.force,
        )


@dataclass
class _Group:
    """What is left to do for one target."""

    target: Target
    pending: deque[Law]
    state: str = "new"  # new, probing, ready
    running: int = 0
    strikes: list[str] = field(default_factory=list)


class Schedule:
    """Hands out pairs to workers. A worker stays with its target while it has pairs, so that its
    caches are warm.
    """

    def __init__(
        self, targets: Iterable[Target], laws: Sequence[Law], done: Iterable[Verdict] = ()
    ) -> None:
        by_target: dict[str, list[Verdict]] = {}
        for verdict in done:
            by_target.setdefault(verdict.target, []).append(verdict)
        self.groups: dict[Target, _Group] = {}
        for target in targets:
            earlier = by_target.get(str(target), [])
            skip = {verdict.law for verdict in earlier}
            group = _Group(target, deque(law for law in laws if law.id not in skip))
            group.strikes = [verdict.law for verdict in earlier if verdict.status in STRIKING]
            self.groups[target] = group

    @property
    def left(self) -> int:
        """Pairs that were not handed out yet."""
        return sum(len(group.pending) for group in self.groups.values())

    def next(self, last: Target | None = None) -> Pair | None:
        """The next pair for a worker whose last pair was about ``last``; None where nothing can
        start now.
        """
        own = self.groups.get(last) if last is not None else None
        if own is not None and own.state == "ready" and own.pending:
            return self._take(own)
        for group in self.groups.values():
            if group.state == "new" and group.pending:
                group.state = "probing"
                return Pair(group.target, None)
        ready = [
            group for group in self.groups.values() if group.state == "ready" and group.pending
        ]
        return self._take(max(ready, key=lambda group: len(group.pending))) if ready else None

    def _take(self, group: _Group) -> Pair:
        group.running += 1
        return Pair(group.target, group.pending.popleft())

    def loaded(self, target: Target) -> None:
        """The probe of a target went well."""
        self.groups[target].state = "ready"

    def enter(self, verdict: Verdict, target: Target) -> Iterator[Verdict]:
        """A pair is done: yields its verdict, and those of the pairs that it keeps from running."""
        group = self.groups[target]
        group.running = max(0, group.running - 1)
        yield verdict
        if verdict.status in STRIKING:
            group.strikes.append(verdict.law)
        if len(group.strikes) >= STRIKES:
            yield from self.abandon(
                target, f"after the target broke twice ({', '.join(group.strikes[:STRIKES])})"
            )

    def broken_probe(
        self, target: Target, status: Status, reason: str, seconds: float
    ) -> Iterator[Verdict]:
        """Loading a target ended its process: its first pair bears that, and the others are not
        run.
        """
        group = self.groups[target]
        if not group.pending:  # given up meanwhile, for want of time
            return
        yield Pair(target, group.pending.popleft()).verdict(
            status, f"while loading the target, {reason}", seconds
        )
        yield from self.abandon(target, f"loading the target ended in {status}: {reason}")

    def abandon(self, target: Target, reason: str) -> Iterator[Verdict]:
        """The pairs left of a target are not run."""
        group = self.groups[target]
        while group.pending:
            yield Pair(target, group.pending.popleft()).verdict(Status.NOT_RUN, reason)

    def drop(self, target: Target) -> None:
        """Forget a target that cannot be loaded."""
        self.groups[target].pending.clear()

    def abandon_all(self, reason: str) -> Iterator[Verdict]:
        """The pairs left of every target are not run."""
        for target in list(self.groups):
            yield from self.abandon(target, reason)
