"""One audit: selection, schedule, execution of every pair, journal, and the report."""

from __future__ import annotations

import json
import math
import platform
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import flowref
from flowref import backends, registry
from flowref.auditing import shards
from flowref.auditing.journal import Earlier, Journal, digest, save_last
from flowref.auditing.options import AuditListener, Options
from flowref.auditing.pair_verdict import final, loading_refusal, not_run, outcome_verdict
from flowref.auditing.places import audit_executor
from flowref.auditing.pool import Broken
from flowref.auditing.schedule import Schedule, ScheduledPair, starved
from flowref.auditing.selection import (
    Selection,
    frameworks,
    library_versions,
    select,
    select_laws,
)
from flowref.auditing.usage import total_memory
from flowref.auditing.worker import MEBIBYTE, PairOutcome, law_id_or_self
from flowref.backends import versions
from flowref.baseline.entry import Entry
from flowref.baseline.entry_targets import exhausted, vet_baseline
from flowref.baseline.failure_status import overlay
from flowref.loading import data
from flowref.model import (
    OBJECT,
    KnownFailure,
    Law,
    Problem,
    Recognized,
    ReportError,
    SpecError,
    Standing,
    Status,
    Verdict,
    nearest,
)
from flowref.model.budget import asked_for
from flowref.model.declaration import FLOW
from flowref.reporting.contents import FREE, Environment, Expense, LawNote, Shard
from flowref.reporting.outcomes import fails
from flowref.reporting.report import Report


def conduct(
    targets: Iterable[Any] | None, laws: Any, options: Options, listener: AuditListener
) -> Report:
    """Run the audit behind every front end. A KeyboardInterrupt ends it early, with an incomplete
    report.
    """
    from flowref.checking.settings import PROFILES

    if options.profile not in PROFILES:
        hint = nearest(options.profile, PROFILES)
        raise SpecError(
            f"the profile is {options.profile!r}; expected one of {', '.join(PROFILES)}{hint}"
        )
    data.vet_data(options.data)
    backends.vet_device(options.device)
    chosen_laws = select_laws(laws, options.ignore)
    selection = select(targets, options.defaults)
    vet_baseline(options.baseline, selection.targets)
    if options.shard:
        shards.parsed(options.shard)
    return Audit(selection, chosen_laws, options, listener).run()


class Audit:
    """The state of a running audit."""

    def __init__(
        self, selection: Selection, laws: Sequence[Law], options: Options, listener: AuditListener
    ) -> None:
        from flowref.checking import Settings

        self.selected, self.laws = selection.targets, laws
        self.options, self.listener = options, listener
        self.share = self._share()
        self.targets = tuple(target for target in self.selected if self.share.get(str(target)))
        self.settings = Settings(
            options.profile,
            options.seed,
            options.data,
            options.limits.memory,
            options.limits.seconds,
            options.device,
        )
        self.problems = [*registry.problems(), *selection.problems]
        self.listings, self.optional = selection.listings, selection.optional
        self.verdicts: dict[tuple[str, str], Verdict] = {}
        self.done: dict[str, list[Verdict]] = {str(target): [] for target in self.targets}
        self.frameworks = frameworks(self.targets)
        self.versions = library_versions(self.selected)
        self.recognized: dict[str, Recognized] = {}
        self.expenses: dict[str, Expense] = {}
        pins = options.baseline.pins(list(self.done), [law.id for law in laws])
        self.cases = {
            pair: verdict.counterexample
            for pair, verdict in pins.items()
            if verdict.counterexample is not None and pair[1] in self.share[pair[0]]
        }
        self.replayed: dict[tuple[str, str], Verdict] = {}
        self.announced: set[str] = set()
        self.unread: set[str] = set()
        self.journal: Journal | None = None
        self.spent = False
        self.failures = 0
        self.began = time.monotonic()
        self.started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

    def _share(self) -> shards.Share:
        """Target -> ids of the laws to run."""
        every, wanted = frozenset(law.id for law in self.laws), self.options.wanted
        share: shards.Share = {str(target): every for target in self.selected}
        if self.options.shard:
            index, count = shards.parsed(self.options.shard)
            share = shards.split_into_shards(self.selected, self.laws, count, self.options.costs)[
                index - 1
            ]
        own = {name: laws & frozenset(wanted.get(name, laws)) for name, laws in share.items()}
        return {name: laws for name, laws in own.items() if laws}

    def _laws_of(self, target: str) -> list[Law]:
        return [law for law in self.laws if law.id in self.share[target]]

    def run(self) -> Report:
        """Run everything; always returns a report."""
        for sentence in versions.untested(self.frameworks):
            self.listener.notice(sentence)
        left = self._open_journal()
        try:
            return self._ran(left)
        finally:  # after an error the journal stays for the next run
            if self.journal is not None:
                self.journal.close(finished=False)

    def _ran(self, left: Earlier) -> Report:
        earlier, unloadable = left.verdicts, left.problems
        self.recognized, self.expenses = dict(left.recognized), dict(left.expenses)
        self.listener.begin(self.targets, self.laws, len(earlier))
        pairs = sum(map(len, self.share.values()))
        if self.options.shard or pairs != len(self.targets) * len(self.laws):
            self.listener.share(pairs)
        for problem in self.problems:
            self.listener.problem(problem)
        for listing in self.listings:
            self.listener.listing(listing)
        without = {problem.spec for problem in unloadable}
        targets = [target for target in self.targets if str(target) not in without]
        earlier = tuple(verdict for verdict in earlier if verdict.target not in without)
        hurried = math.isfinite(self.options.budget)
        self.schedule = Schedule(targets, self.laws, earlier, hurried, self.cases, self.share)
        for problem in unloadable:
            self._enter_unloadable(problem)
        for verdict in earlier:
            self._enter(verdict)
        complete = True
        try:
            self._run()
        except KeyboardInterrupt:
            complete = False
            self._enter_all(
                self.schedule.abandon_all("the audit was interrupted before this check")
            )
            # Targets with a running pair have not ended; they are reported as far as they were judged.
            for name in [name for name in self.done if name not in self.announced]:
                self._report_target(name)
        report = self.report(complete=complete)
        if self.options.folder is not None and self.journal is not None:
            if report.verdicts:  # a misspelt target must not replace the last report
                save_last(report, self.options.folder)
            self.journal.close(finished=complete)
        return report

    def _open_journal(self) -> Earlier:
        """The results of an interrupted run of the same audit."""
        if self.options.folder is None:
            return Earlier()
        wanted = {name: sorted(laws) for name, laws in self.options.wanted.items()}
        part = json.dumps([self.options.shard, wanted])
        name = digest(self.selected, self.laws, self.settings, self.versions, part)
        journal = Journal(self.options.folder, name)
        left = Earlier() if self.options.fresh else journal.read()
        known = tuple(verdict for verdict in left.verdicts if verdict.target in self.done)
        left = replace(left, verdicts=known)
        try:
            journal.open(left)
        except ReportError as error:
            self.listener.notice(f"this audit cannot be resumed: {error}")
        else:
            self.journal = journal
        return left

    def _run(self) -> None:
        """Run live objects in this process, other pairs in workers if there are any."""
        options = self.options
        if (options.jobs or options.dask) and any(one.adapter == OBJECT for one in self.targets):
            self.listener.notice(
                "live objects cannot be sent to workers: everything runs in this process"
            )
            options = replace(options, jobs=0, dask="")
        own = [law.id for law in self.laws if law_id_or_self(law) is law]
        if (options.jobs or options.dask) and own:
            listed = f"{', '.join(own[:3])}{' and others' if len(own) > 3 else ''}"
            self.listener.notice(
                f"laws that are in no catalogue cannot be sent to workers ({listed}): everything "
                "runs in this process"
            )
            options = replace(options, jobs=0, dask="")
        with audit_executor(options, self.settings, self.frameworks, self.targets) as workers:
            self._consume(workers.run(self.schedule))

    def _consume(self, events: Iterator[tuple[ScheduledPair, PairOutcome | Broken | None]]) -> None:
        for pair, outcome in events:
            if outcome is None:
                self.listener.start(pair)
                continue
            self._add_cost(str(pair.target), outcome.expense)
            if pair.ahead:  # the other probe decides whether the target loads
                continue
            if pair.law is None:
                self._enter_probe(pair, outcome)
            elif pair.case is not None:
                self._enter_replay(pair, outcome)
            else:
                verdict = self._settled(pair, outcome)
                if memory := self._memory_for_retry(pair, verdict):
                    self.schedule.postpone(pair, verdict, memory)
                    continue
                verdicts = self.schedule.enter(verdict, pair.target)
                self._enter_all(verdicts, journal=True)
            if self.schedule.left and time.monotonic() - self.began > self.options.budget:
                self._out_of_time()
            if self.schedule.left and 0 < self.options.failures <= self.failures:
                self._stop()

    def _add_cost(self, target: str, expense: Expense) -> None:
        if expense != FREE:
            self.expenses[target] = self.expenses.get(target, FREE) + expense
            if self.journal is not None:
                self.journal.spend(target, expense)

    def _settled(self, pair: ScheduledPair, outcome: PairOutcome | Broken) -> Verdict:
        """The verdict on a pair, within the limits of this audit."""
        limited = self.options.jobs or self.options.dask
        return outcome_verdict(pair, outcome, self.options.limits.granted(pair) if limited else 0)

    def _memory_for_retry(self, pair: ScheduledPair, verdict: Verdict) -> int:
        """The memory in MiB with which a pair is measured again after the others: if it needs more
        than its limit, the limit is the default, and the machine has it; else 0.
        """
        limits = self.options.limits
        if not limits.stretched or not self.options.jobs or self.options.dask:
            return 0
        asked = asked_for(verdict.reason) if verdict.status is Status.INCONCLUSIVE else 0
        return asked if limits.granted(pair) < asked <= total_memory() // MEBIBYTE else 0

    def _out_of_time(self) -> None:
        """Mark the remaining pairs as not run, and report law families of which nothing was run."""
        budget = f"the budget of {self.options.budget:g} s"
        self._enter_all(self.schedule.abandon_all(f"{budget} was spent before this check"))
        families = starved(self.verdicts.values())
        if families and not self.spent:  # pairs that a cluster returns later are not reported again
            listed = [f"{family} ({count} targets)" for family, count in sorted(families.items())]
            self.spent = True
            self.listener.notice(
                f"{budget} was spent before the first law of these families: {', '.join(listed)}"
            )

    def _stop(self) -> None:
        """Mark the remaining pairs as not run after too many failures."""
        count = self.failures
        said = f"the audit stopped after {count} failure{'' if count == 1 else 's'}"
        self.listener.notice(f"{said}; {self.schedule.left} pairs were not run")
        self._enter_all(self.schedule.abandon_all(said))

    def _enter_replay(self, pair: ScheduledPair, outcome: PairOutcome | Broken) -> None:
        assert pair.law is not None
        self.replayed[str(pair.target), pair.law.id] = self._settled(pair, outcome)
        self.schedule.replayed(pair.target)
        self._report_if_done(str(pair.target))

    def _enter_probe(self, pair: ScheduledPair, outcome: PairOutcome | Broken) -> None:
        """Enter whether a target could be loaded."""
        target = pair.target
        if isinstance(outcome, Broken):
            verdicts = self.schedule.broken_probe(
                target, outcome.status, outcome.reason, outcome.seconds
            )
            self._enter_all(verdicts, journal=True)
        elif outcome.raised:
            self.schedule.drop(target)
            problem = Problem(
                str(target), loading_refusal(target, outcome.raised) + registry.parts_within(target)
            )
            if target in self.optional and FLOW not in problem.message:  # a declared flow must load
                self._leave_out(problem)
                return
            if self.journal is not None:
                self.journal.fail(problem)
            self._enter_unloadable(problem)
        else:
            if outcome.recognized is not None:
                self.recognized[str(target)] = outcome.recognized
                if self.journal is not None:
                    self.journal.recognize(str(target), outcome.recognized)
            self.schedule.loaded(target, outcome.seconds)

    def _leave_out(self, problem: Problem) -> None:
        """Leave out an object of a whole file that is no flow."""
        self.done.pop(problem.spec, None)
        if problem.message not in self.unread:  # a missing import is the same for a whole file
            self.unread.add(problem.message)
            self.listener.left_out(problem)

    def _enter_unloadable(self, problem: Problem) -> None:
        """Enter a target that cannot be loaded; it has no verdicts."""
        self.problems.append(problem)
        self.done.pop(problem.spec, None)
        self.failures += 1
        self.listener.problem(problem)

    def _enter_all(self, verdicts: Iterable[Verdict], *, journal: bool = False) -> None:
        for verdict in verdicts:
            if journal and self.journal is not None:
                self.journal.add(verdict)
            self._enter(verdict)

    def _enter(self, verdict: Verdict) -> None:
        """Enter a verdict; the last one of a target ends it."""
        self.verdicts[verdict.target, verdict.law] = verdict
        self.listener.verdict(verdict)
        if fails(verdict) or (self.options.strict and verdict.minor):
            known = self._overlay([verdict])
            self.failures += all(one.standing is not Standing.KNOWN for one in known)
        self.done[verdict.target].append(verdict)
        self._report_if_done(verdict.target)

    def _report_if_done(self, name: str) -> None:
        if len(self.done.get(name, ())) < len(self.share[name]):
            return
        target = next(target for target in self.targets if str(target) == name)
        if not self.schedule.has_cases_to_replay(target):
            self._report_target(name)

    def _report_target(self, name: str) -> None:
        """Report the verdicts on a target so far."""
        self.announced.add(name)
        target = next(target for target in self.targets if str(target) == name)
        verdicts = [self._final(name, law) for law in self._laws_of(name)]
        known = self._overlay(verdicts)
        own = [one for one in known if one.target == name]
        ordered = sorted(verdicts, key=lambda verdict: verdict.law)
        self.listener.target(target, ordered, self.recognized.get(name), own)

    def _final(self, name: str, law: Law) -> Verdict:
        missing = "the audit was interrupted before this check was done"
        found = self.verdicts.get((name, law.id)) or not_run(name, law, missing)
        return final(found, self.replayed.get((name, law.id)), law)

    def _exhausted(self, entry: Entry) -> bool:
        return exhausted(entry, self.selected)

    def _overlay(self, verdicts: Sequence[Verdict]) -> tuple[KnownFailure, ...]:
        part = bool(self.options.shard)
        return overlay(self.options.baseline, verdicts, self.replayed, self._exhausted, part=part)

    def report(self, *, complete: bool) -> Report:
        """The report of everything so far, in the order of targets and laws."""
        names = [name for name in map(str, self.targets) if name in self.done]
        verdicts = [self._final(name, law) for name in names for law in self._laws_of(name)]
        known = self._overlay(verdicts)
        environment = Environment(
            flowref=flowref.__version__,
            python=platform.python_version(),
            platform=f"{platform.system()} {platform.machine()}",
            versions=self.versions,
            command=self.options.command,
            profile=self.options.profile,
            seed=self.options.seed,
            started=self.started,
            seconds=time.monotonic() - self.began,
        )
        notes = [
            LawNote(law.id, law.version, law.statement, law.force, law.tolerance, law.source)
            for law in self.laws
        ]
        return Report(
            environment,
            tuple(notes),
            tuple(names),
            tuple(verdicts),
            tuple(self.problems),
            complete,
            recognized={name: self.recognized[name] for name in names if name in self.recognized},
            known=known,
            expenses={name: self.expenses[name] for name in names if name in self.expenses},
            shard=self._shard(),
        )

    def _shard(self) -> Shard | None:
        if not self.options.shard:
            return None
        return shards.note(*shards.parsed(self.options.shard), self.selected)
