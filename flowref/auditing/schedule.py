"""The order of the pairs: target by target, a probe first.

A broken process is charged to the abilities that the law needs, except those that another law used
successfully; laws that need an ability charged twice are not run. A target is abandoned if most of
its laws break it. For a target that loads slowly, laws with whole Jacobians or parameter
perturbations come last, so that they block no others. If the time is limited, each family of laws
is measured once on every target before any is measured again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from flowref.model import Counterexample, Law, Status, Target, Verdict

STRIKES = 2
STRIKING = (Status.TIMEOUT, Status.CRASHED)
# A target that broke this often, and more often than not, is abandoned.
MOST = 6
# The fewest pairs of a target for which a second worker loads it at the same time.
WORTH_LOADING = 8
# The ability charged for a law that names none.
CALLS = "calls"
# Seconds above which loading and calling a target once is slow; the expensive abilities then.
SLOW, EXPENSIVE = 4.0, frozenset({"jacobian", "along"})
# The calls that are most expensive then.
EXPENSIVE_CALLS = ("sample", "inverse")
# Statuses that do not show that a law's abilities work.
SILENT = (*STRIKING, Status.NOT_APPLICABLE, Status.NOT_RUN)


@dataclass(frozen=True)
class ScheduledPair:
    """One target and one law; ``law`` None is the probe: load the target and call it once.

    ``case``: a recorded case to measure again. ``memory``: MiB, if more than usual; ``refused``:
    the verdict that asked for it. ``room``: MiB that other pairs of the target needed, which this
    one may take too if they are free; the plan ignores it. ``ahead``: a second probe, by an idle
    worker that will need the target next. ``kin``: the calls that it shares with other laws of the
    target.
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
        """A verdict on this pair without a measurement."""
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
        """Record that a law broke the process, or returned."""
        if status in STRIKING:
            self.strikes.append(law)
        elif status not in SILENT:
            self.returned += 1
            self.used.update(needs(law))

    @property
    def broken(self) -> dict[str, list[str]]:
        """Ability -> laws that broke, for abilities charged at least twice."""
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
        """The key of laws that share calls: the expensive call if calls are slow, else the family."""
        expensive = [call for call in EXPENSIVE_CALLS if self.slow and call in law.needs]
        return expensive[0] if expensive else law.family

    def nearest(self, had: Sequence[str]) -> Law:
        """The next law for a worker that measured the kinds ``had``, the latest last, whose results
        it caches. Then one that no other worker measures or measured, last one whose expensive
        calls another made. Of the late laws the longest start first, since they end the audit and
        old results are evicted.
        """
        expensive = EXPENSIVE if self.slow else frozenset[str]()
        late = bool(expensive & self.pending[0].needs)
        rest = [law for law in self.pending if bool(expensive & law.needs) is late]

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
        """The fewest measurements of any remaining family."""
        return self.measured[self.neediest.family]


def needs(law: Law) -> frozenset[str]:
    """The abilities that a law uses."""
    return law.needs or frozenset({CALLS})


def _late_rank(law: Law) -> tuple[bool, int]:
    """Sort key of a slow target's laws: expensive ones last, of these the neediest first, since the
    audit ends with one worker.
    """
    late = bool(EXPENSIVE & law.needs)
    return late, -len(law.needs) if late else 0


def starved(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """Return family -> number of targets on which none of its laws was run."""
    run: dict[tuple[str, str], bool] = {}
    for verdict in verdicts:
        pair = verdict.target, verdict.law.partition("/")[0]
        run[pair] = run.get(pair, False) or verdict.status is not Status.NOT_RUN
    return dict(Counter(family for (_, family), ran in run.items() if not ran))


class Schedule:
    """Hands out pairs to workers. A worker stays with its target while it has pairs, so that its
    caches are warm. ``cases``: recorded cases to measure first, by (target, law); ``hurried``:
    whether the time is limited; ``share``: target -> laws to run, None for all.
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
        """Number of pairs not handed out yet."""
        waiting = sum(len(group.pending) + len(group.cases) for group in self.groups.values())
        return waiting + len(self.late)

    def next(
        self, last: Target | None = None, had: Sequence[str] | None = None
    ) -> ScheduledPair | None:
        """Return the next pair for a worker whose last pair was about ``last``, and that measured
        laws of the kinds ``had`` if there are several workers; None if none can start now.
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
        """Return a second probe of a target that another worker is loading and that has many laws;
        None if there is none.
        """
        for group in self.groups.values():
            waiting = group.state == "probing" and len(group.pending) >= WORTH_LOADING
            if waiting and group.target != last:
                return ScheduledPair(group.target, None, ahead=True)
        return None

    def _ahead(self, group: _Group) -> bool:
        """Whether another target still lacks the first measurement of a family that this one had."""
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
        """Run a pair again after all others, with ``memory`` MiB."""
        group = self.groups[pair.target]
        group.running = max(0, group.running - 1)
        group.room = max(group.room, memory)
        if pair.law is not None and not pair.memory:
            group.at_work[group.kin(pair.law)] -= 1
            group.measured[pair.law.family] -= self.hurried
        self.late.append(replace(pair, memory=memory, refused=refused))

    def _postponed(self, last: Target | None) -> ScheduledPair | None:
        """A postponed pair, of the worker's own target first."""
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
        """Return a pair that did not start; it comes next."""
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
        """A recorded case was measured."""
        group = self.groups[target]
        group.running, group.replaying = max(0, group.running - 1), max(0, group.replaying - 1)

    def has_cases_to_replay(self, target: Target) -> bool:
        """Whether recorded cases of a target are still to be measured."""
        return bool(self.groups[target].replaying or self.groups[target].cases)

    def loaded(self, target: Target, seconds: float = 0.0) -> None:
        """The probe of a target succeeded in ``seconds``."""
        group = self.groups[target]
        group.state = "ready"
        if seconds > SLOW:
            group.slow = True
            group.pending = deque(sorted(group.pending, key=_late_rank))

    def enter(self, verdict: Verdict, target: Target) -> Iterator[Verdict]:
        """Enter the verdict on a pair; yields it, and those on pairs that it blocks."""
        group = self.groups[target]
        group.running = max(0, group.running - 1)
        family = verdict.law.partition("/")[0]
        group.at_work[group.kin(self.laws[verdict.law])] -= 1
        if self.hurried and verdict.status is Status.NOT_APPLICABLE:  # it took no time
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
        """Loading a target ended its process: its first pair gets the status, the others are not
        run.
        """
        group = self.groups[target]
        group.cases.clear()
        if not group.pending:  # abandoned meanwhile
            return
        if status is Status.TIMEOUT:
            reason += "; a larger --timeout gives it more"
        yield ScheduledPair(target, group.pending.popleft()).verdict(
            status, f"while loading the target, {reason}", seconds
        )
        yield from self.abandon(target, f"loading the target ended in {status}: {reason}")

    def abandon(self, target: Target, reason: str) -> Iterator[Verdict]:
        """Yield NOT_RUN for the remaining pairs of a target."""
        group = self.groups[target]
        group.cases.clear()
        while group.pending:
            yield ScheduledPair(target, group.pending.popleft()).verdict(Status.NOT_RUN, reason)
        late = [pair for pair in self.late if pair.target == target]
        self.late = deque(pair for pair in self.late if pair.target != target)
        yield from (pair.refused for pair in late if pair.refused is not None)

    def drop(self, target: Target) -> None:
        """Remove the pairs of a target that cannot be loaded."""
        self.groups[target].pending.clear()
        self.groups[target].cases.clear()

    def abandon_all(self, reason: str) -> Iterator[Verdict]:
        """Yield NOT_RUN for the remaining pairs of every target."""
        for target in list(self.groups):
            yield from self.abandon(target, reason)
