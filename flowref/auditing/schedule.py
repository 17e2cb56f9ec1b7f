"""Which pair runs next: target by target, a probe first, and no more of what broke a target twice.

What breaks a process is charged to the abilities that the law needs, less those that another law
has used and come back from: where one is charged twice, laws that need it are not run, and the others
are. A target is left alone where most of its laws break it.

Of a target that takes long to load, laws that take whole Jacobians or move along parameters come last:
what they break, or do not come to, keeps no other from running.

Where time may run out, each family of laws is measured once on every target before any is measured
again, so that what ends the audit starves no family.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from flowref.model import Counterexample, Law, Status, Target, Verdict

STRIKES = 2
STRIKING = (Status.TIMEOUT, Status.CRASHED)
# A target that broke so often, and more often than not, is left alone.
MOST = 6
# Pairs of a target from which on a second worker loads it while the first does.
WORTH_LOADING = 8
# What a law is about that names no ability: the calls, whichever there are.
CALLS = "calls"
# Seconds from which on loading a target, and calling it once, takes long; what takes most there.
SLOW, DEAR = 4.0, frozenset({"jacobian", "along"})
# Calls that mostly take longest there.
DEAR_CALLS = ("sample", "inverse")
# That a law came back from these shows nothing of what it needs.
SILENT = (*STRIKING, Status.NOT_APPLICABLE, Status.NOT_RUN)


@dataclass(frozen=True)
class ScheduledPair:
    """One target and one law; ``law`` None is the probe: load the target and call it once.

    ``case``: measure this recorded case again, instead of searching. ``memory``: mebibytes that it may
    take, where they are more than those of other pairs; ``refused``: the verdict that asks for them.
    ``room``: mebibytes that others of the target had to have, which it may take as well where the
    machine has them free; it is planned as if it did not.
    ``ahead``: a probe beside another, by a worker that has nothing else to do and would load the target next.
    ``kin``: what its calls have in common with those of other laws of the target.
    """

    target: Target
    law: Law | None
    case: Counterexample | None = None
    memory: int = 0
    refused: Verdict | None = None
    ahead: bool = False
    room: int = 0
    kin: str = field(default="", compare=False)

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
    """What is left to do for one target: recorded cases, and laws."""

    target: Target
    pending: deque[Law]
    cases: deque[ScheduledPair]
    state: str = "new"  # new, probing, ready
    running: int = 0
    replaying: int = 0
    strikes: list[Law] = field(default_factory=list)
    used: Counter[str] = field(default_factory=Counter)
    returned: int = 0
    measured: Counter[str] = field(default_factory=Counter)
    at_work: Counter[str] = field(default_factory=Counter)
    met: set[str] = field(default_factory=set)
    room: int = 0
    slow: bool = False

    def note(self, law: Law, status: Status) -> None:
        """A law broke the process, or came back."""
        if status in STRIKING:
            self.strikes.append(law)
        elif status not in SILENT:
            self.returned += 1
            self.used.update(needs(law))

    @property
    def broken(self) -> dict[str, list[str]]:
        """The abilities that are charged with it twice, and the laws that broke."""
        charged: dict[str, list[str]] = {}
        for law in self.strikes:
            for ability in needs(law):
                if not self.used[ability]:
                    charged.setdefault(ability, []).append(law.id)
        return {ability: laws for ability, laws in charged.items() if len(laws) >= STRIKES}

    @property
    def hopeless(self) -> bool:
        """Whether most laws break the target."""
        return len(self.strikes) >= MOST and len(self.strikes) > self.returned

    @property
    def neediest(self) -> Law:
        """The next law of the family that was measured least."""
        return min(self.pending, key=lambda law: self.measured[law.family])

    def kin(self, law: Law) -> str:
        """What laws have in common that ask for the same calls: their family; where calls take long, rather
        that they draw, or go back.
        """
        dear = [call for call in DEAR_CALLS if self.slow and call in law.needs]
        return dear[0] if dear else law.family

    def nearest(self, had: Sequence[str]) -> Law:
        """The next law for a worker that measured these kinds before, the last of them last: it keeps the
        results of the calls that they ask for. Then one that no other worker is at, nor was; least of all one
        whose long calls another has made. Of those that come last the longest are begun first, since nothing
        else is left to do beside them, and results that old are mostly forgotten.
        """
        dear = DEAR if self.slow else frozenset[str]()
        late = bool(dear & self.pending[0].needs)
        rest = [law for law in self.pending if bool(dear & law.needs) is late]

        def rank(law: Law) -> tuple[bool, ...]:
            kin = self.kin(law)
            new = kin not in had
            elsewhere = new and kin in self.met
            long = kin != law.family
            if late:
                return not long, kin not in had[-1:], self.at_work[kin] > 0
            return kin not in had[-1:], elsewhere and long, self.at_work[kin] > 0, new, elsewhere

        return min(rest, key=rank)

    @property
    def round(self) -> int:
        """How often each family that is left was measured, at least."""
        return self.measured[self.neediest.family]


def needs(law: Law) -> frozenset[str]:
    """What a law uses of a target."""
    return law.needs or frozenset({CALLS})


def _late(law: Law) -> tuple[bool, int]:
    """Where a law comes among those of a target that takes long: of the dear ones first what needs most,
    since one worker alone is waited for in the end.
    """
    late = bool(DEAR & law.needs)
    return late, -len(law.needs) if late else 0


def starved(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """Families of laws of which nothing was run, by the number of targets to which that happened."""
    run: dict[tuple[str, str], bool] = {}
    for verdict in verdicts:
        pair = verdict.target, verdict.law.partition("/")[0]
        run[pair] = run.get(pair, False) or verdict.status is not Status.NOT_RUN
    return dict(Counter(family for (_, family), ran in run.items() if not ran))


class Schedule:
    """Hands out pairs to workers. A worker stays with its target while it has pairs, so that its
    caches are warm. ``cases``: what is measured again first, by target and law; ``hurried``: time
    may run out; ``share``: of each target the laws that are to be run, all where it is None.
    """

    def __init__(
        self,
        targets: Iterable[Target],
        laws: Sequence[Law],
        done: Iterable[Verdict] = (),
        hurried: bool = False,
        cases: Mapping[tuple[str, str], Counterexample] | None = None,
        share: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        self.hurried = hurried
        self.laws = {law.id: law for law in laws}
        by_target: dict[str, list[Verdict]] = {}
        for verdict in done:
            by_target.setdefault(verdict.target, []).append(verdict)
        self.groups: dict[Target, _Group] = {}
        for target in targets:
            earlier = by_target.get(str(target), [])
            skip = {verdict.law for verdict in earlier}
            recorded = [
                ScheduledPair(target, law, case)
                for law in laws
                if (case := (cases or {}).get((str(target), law.id))) is not None
            ]
            wanted = self.laws if share is None else share.get(str(target), ())
            left = deque(law for law in laws if law.id in wanted and law.id not in skip)
            group = _Group(target, left, deque(recorded))
            for verdict in earlier:
                if verdict.law in self.laws:
                    group.note(self.laws[verdict.law], verdict.status)
            self.groups[target] = group
        self.late: deque[ScheduledPair] = deque()

    @property
    def left(self) -> int:
        """Pairs that were not handed out yet."""
        waiting = sum(len(group.pending) + len(group.cases) for group in self.groups.values())
        return waiting + len(self.late)

    def next(
        self, last: Target | None = None, had: Sequence[str] | None = None
    ) -> ScheduledPair | None:
        """The next pair for a worker whose last pair was about ``last``, and that measured laws of these
        kinds where there are several workers (see `kin`); None where nothing can start now.
        """
        own = self.groups.get(last) if last is not None else None
        if own is not None and own.state == "ready" and own.cases:
            return self._replay(own)
        if own is not None and own.state == "ready" and own.pending and not self._ahead(own):
            return self._take(own, had)
        for group in self.groups.values():
            if group.state == "new" and (group.pending or group.cases):
                group.state = "probing"
                return ScheduledPair(group.target, None)
        for group in self.groups.values():
            if group.state == "ready" and group.cases:
                return self._replay(group)
        ready = [
            group for group in self.groups.values() if group.state == "ready" and group.pending
        ]
        if not ready:
            return self._postponed(last)
        if self.hurried:
            return self._take(min(ready, key=lambda group: group.round))
        return self._take(
            max(ready, key=lambda group: len(group.pending)), None if had is None else ()
        )

    def ahead(self, last: Target | None = None) -> ScheduledPair | None:
        """A target that another worker is loading, and of which there will be enough to do for a worker
        that can start nothing now.
        """
        for group in self.groups.values():
            waits = group.state == "probing" and len(group.pending) >= WORTH_LOADING
            if waits and group.target != last:
                return ScheduledPair(group.target, None, ahead=True)
        return None

    def _ahead(self, group: _Group) -> bool:
        """Whether another target waits for the first measurement of a family that this one had."""
        if not self.hurried or not group.round:
            return False
        return any(
            other.pending and (other.state == "new" or not other.round)
            for other in self.groups.values()
        )

    def _take(self, group: _Group, had: Sequence[str] | None = None) -> ScheduledPair:
        group.running += 1
        law = group.neediest if self.hurried else group.pending[0]
        if had is not None and not self.hurried:
            law = group.nearest(had)
        kin = group.kin(law)
        group.pending.remove(law)
        group.at_work[kin] += 1
        group.met.add(kin)
        if self.hurried:  # another worker takes another family
            group.measured[law.family] += 1
        return ScheduledPair(group.target, law, room=group.room, kin=kin)

    def postpone(self, pair: ScheduledPair, refused: Verdict, memory: int) -> None:
        """A pair needs so many mebibytes: it comes again when all else was handed out."""
        group = self.groups[pair.target]
        group.running = max(0, group.running - 1)
        group.room = max(group.room, memory)
        if pair.law is not None and not pair.memory:
            group.at_work[group.kin(pair.law)] -= 1
            group.measured[pair.law.family] -= self.hurried
        self.late.append(replace(pair, memory=memory, refused=refused))

    def _postponed(self, last: Target | None) -> ScheduledPair | None:
        """What waits for memory; that of the worker's own target first."""
        if not self.late:
            return None
        pair = next((one for one in self.late if one.target == last), self.late[0])
        self.late.remove(pair)
        self.groups[pair.target].running += 1
        return pair

    def _replay(self, group: _Group) -> ScheduledPair:
        group.running += 1
        group.replaying += 1
        return group.cases.popleft()

    def give_back(self, pair: ScheduledPair) -> None:
        """A pair that was handed out did not start after all; it comes next."""
        group = self.groups[pair.target]
        if pair.law is None:
            group.state = "new"
            return
        group.running = max(0, group.running - 1)
        if pair.memory:
            self.late.appendleft(pair)
            return
        if pair.case is not None:
            group.replaying = max(0, group.replaying - 1)
            group.cases.appendleft(pair)
            return
        group.pending.appendleft(pair.law)
        group.at_work[group.kin(pair.law)] -= 1
        if self.hurried:
            group.measured[pair.law.family] -= 1

    def replayed(self, target: Target) -> None:
        """A recorded case of a target was measured again."""
        group = self.groups[target]
        group.running, group.replaying = max(0, group.running - 1), max(0, group.replaying - 1)

    def waits(self, target: Target) -> bool:
        """Whether recorded cases of a target are still to be measured."""
        return bool(self.groups[target].replaying or self.groups[target].cases)

    def loaded(self, target: Target, seconds: float = 0.0) -> None:
        """The probe of a target went well, and took so long."""
        group = self.groups[target]
        group.state = "ready"
        if seconds > SLOW:
            group.slow = True
            group.pending = deque(sorted(group.pending, key=_late))

    def enter(self, verdict: Verdict, target: Target) -> Iterator[Verdict]:
        """A pair is done: yields its verdict, and those of the pairs that it keeps from running."""
        group = self.groups[target]
        group.running = max(0, group.running - 1)
        family = verdict.law.partition("/")[0]
        group.at_work[group.kin(self.laws[verdict.law])] -= 1
        if self.hurried and verdict.status is Status.NOT_APPLICABLE:  # which took no time
            group.measured[family] -= 1
        yield verdict
        group.note(self.laws[verdict.law], verdict.status)
        if verdict.status not in STRIKING:
            return
        if group.hopeless:
            laws = ", ".join(law.id for law in group.strikes)
            yield from self.abandon(target, f"after the target broke {MOST} times ({laws})")
        for ability, broken in group.broken.items():
            for law in [law for law in group.pending if ability in needs(law)]:
                group.pending.remove(law)
                reason = f"{ability} broke twice ({', '.join(broken[:STRIKES])})"
                yield ScheduledPair(target, law).verdict(Status.NOT_RUN, reason)

    def broken_probe(
        self, target: Target, status: Status, reason: str, seconds: float
    ) -> Iterator[Verdict]:
        """Loading a target ended its process: its first pair bears that, and the others are not
        run.
        """
        group = self.groups[target]
        group.cases.clear()
        if not group.pending:  # given up meanwhile, for want of time
            return
        if status is Status.TIMEOUT:
            reason += "; a larger --timeout gives it more"
        yield ScheduledPair(target, group.pending.popleft()).verdict(
            status, f"while loading the target, {reason}", seconds
        )
        yield from self.abandon(target, f"loading the target ended in {status}: {reason}")

    def abandon(self, target: Target, reason: str) -> Iterator[Verdict]:
        """The pairs left of a target are not run."""
        group = self.groups[target]
        group.cases.clear()
        while group.pending:
            yield ScheduledPair(target, group.pending.popleft()).verdict(Status.NOT_RUN, reason)
        late = [pair for pair in self.late if pair.target == target]
        self.late = deque(pair for pair in self.late if pair.target != target)
        yield from (pair.refused for pair in late if pair.refused is not None)

    def drop(self, target: Target) -> None:
        """Forget a target that cannot be loaded."""
        self.groups[target].pending.clear()
        self.groups[target].cases.clear()

    def abandon_all(self, reason: str) -> Iterator[Verdict]:
        """The pairs left of every target are not run."""
        for target in list(self.groups):
            yield from self.abandon(target, reason)
