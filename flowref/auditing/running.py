"""One audit: select, schedule, check every pair somewhere, keep every verdict, and put them
together as a report.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import platform
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import flowref
from flowref import backends, registry
from flowref.auditing.journal import LAST, Journal, digest
from flowref.auditing.pool import CHECK, Broken, Limits, Pool
from flowref.auditing.schedule import Pair, Schedule
from flowref.auditing.selection import (
    Selection,
    frameworks,
    library_versions,
    select,
    select_laws,
)
from flowref.auditing.worker import Outcome, guarded, resolve
from flowref.model import (
    OBJECT,
    Law,
    Problem,
    ReportError,
    SpecError,
    Status,
    Target,
    Verdict,
    nearest,
)
from flowref.reporting.contents import Environment, LawNote
from flowref.reporting.report import Report

OUT_OF_MEMORY = re.compile(
    r"MemoryError|can't allocate memory|cannot allocate memory|unable to allocate|not enough "
    r"memory|bad_alloc",
    re.IGNORECASE,
)
PROFILES = ("quick", "standard", "thorough")


@dataclass(frozen=True)
class Options:
    """How an audit runs. ``jobs`` 0: in this process, with no time-out and no protection from what
    targets do.

    ``budget``: seconds after which no pair starts. ``folder``: where the journal and the report are
    kept, or None.
    ``fresh``: do not go on with an interrupted audit. ``defaults``: options for targets that do not
    give them.
    ``entry``: the function that checks a pair, as "module:name".
    """

    profile: str = "standard"
    seed: int = 0
    jobs: int = 0
    limits: Limits = field(default_factory=Limits)
    budget: float = math.inf
    folder: Path | None = None
    fresh: bool = False
    defaults: dict[str, str] = field(default_factory=dict)
    command: str = ""
    entry: str = CHECK


class Listener:
    """Is told what happens; a front end overrides what it wants to hear."""

    def begin(self, targets: Sequence[Target], laws: Sequence[Law], known: int) -> None:
        """The selection is made; ``known`` verdicts come from an interrupted run."""

    def start(self, pair: Pair) -> None:
        """A pair starts."""

    def verdict(self, verdict: Verdict) -> None:
        """A pair is done."""

    def problem(self, problem: Problem) -> None:
        """A target cannot be audited."""

    def target(self, target: Target, verdicts: Sequence[Verdict]) -> None:
        """All pairs of a target are done."""

    def notice(self, text: str) -> None:
        """Something that the user should know."""


def audit(
    targets: Any = None,
    *,
    laws: str | Law | Iterable[str | Law] = (),
    profile: str = "standard",
    seed: int = 0,
    jobs: int = 0,
    timeout: float = 60.0,
    memory: int = 2048,
    budget: float = math.inf,
) -> Report:
    """Check every law on every target: specs such as "zuko:NSF?features=3", libraries, or live
    objects.

    Arguments: ``laws`` ids or globs, all by default; ``profile`` quick, standard, thorough;
    ``jobs`` worker processes, 0 for this process; ``timeout`` seconds and ``memory`` MiB for each
    pair, in workers only; ``budget`` seconds after which no pair starts. Live objects are copied
    first and stay in this process.
    Raises: `SpecError` for laws or options that do not exist. Targets that cannot be loaded are in
    ``report.problems``.
    """
    if targets is not None and (
        isinstance(targets, str | Target) or not isinstance(targets, list | tuple | set)
    ):
        targets = [targets]
    options = Options(profile, seed, jobs, Limits(timeout, memory), budget)
    return conduct(targets, laws, options, Listener())


def check_flow(
    flow: Any, *, event_shape: int | Sequence[int] | None = None, laws: Any = (), **options: Any
) -> Report:
    """Audit one flow, bijection, density or batch normalizer, and raise with every violation in
    words.

    Arguments: ``event_shape`` of one input without its batch axis, where the object does not tell;
    the rest as `audit`.
    Raises: `FlowrefViolation`, an AssertionError, if a law is violated, or if nothing could be
    checked.
    """
    sizes = (event_shape,) if isinstance(event_shape, int) else tuple(event_shape or ())
    defaults = {"event": ",".join(str(size) for size in sizes)} if sizes else {}
    chosen = select([flow], defaults)
    problems = [Problem(problem.spec, problem.message) for problem in chosen.problems]
    report = audit(list(chosen.targets), laws=laws, **options)
    report = replace(report, problems=(*problems, *report.problems))
    report.raise_for_violations()
    if report.exit_code:
        from flowref.reporting.report import FlowrefViolation

        raise FlowrefViolation(f"nothing meaningful was checked: {_first_reason(report)}")
    return report


def _first_reason(report: Report) -> str:
    return next((verdict.reason for verdict in report.verdicts if verdict.reason), "no law applies")


def conduct(
    targets: Iterable[Any] | None, laws: Any, options: Options, listener: Listener
) -> Report:
    """The audit behind every front end. A KeyboardInterrupt ends it early, with a report that says
    so.
    """
    if options.profile not in PROFILES:
        hint = nearest(options.profile, PROFILES)
        raise SpecError(
            f"the profile is {options.profile!r}; expected one of {', '.join(PROFILES)}{hint}"
        )
    chosen_laws = select_laws(laws)
    selection = select(targets, options.defaults)
    return _Audit(selection, chosen_laws, options, listener).run()


class _Audit:
    """The state of one audit while it runs."""

    def __init__(
        self, selection: Selection, laws: Sequence[Law], options: Options, listener: Listener
    ) -> None:
        from flowref.checking import Settings

        self.targets, self.laws, self.options, self.listener = (
            selection.targets,
            laws,
            options,
            listener,
        )
        self.settings = Settings(options.profile, options.seed)
        self.problems = [*registry.problems(), *selection.problems]
        self.verdicts: dict[tuple[str, str], Verdict] = {}
        self.done: dict[str, list[Verdict]] = {str(target): [] for target in self.targets}
        self.frameworks = frameworks(self.targets)
        self.versions = library_versions(self.targets)
        self.journal: Journal | None = None
        self.began = time.monotonic()
        self.started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

    def run(self) -> Report:
        """Run everything; always returns a report."""
        known, lost = self._open_journal()
        self.listener.begin(self.targets, self.laws, len(known))
        for problem in self.problems:
            self.listener.problem(problem)
        gone = {problem.spec for problem in lost}
        targets = [target for target in self.targets if str(target) not in gone]
        known = [verdict for verdict in known if verdict.target not in gone]
        self.schedule = Schedule(targets, self.laws, known)
        for problem in lost:
            self._lose(problem)
        for verdict in known:
            self._keep(verdict)
        complete = True
        try:
            self._run()
        except KeyboardInterrupt:
            complete = False
            self._keep_all(self.schedule.abandon_all("the audit was interrupted before this pair"))
        report = self.report(complete=complete)
        if self.options.folder is not None and self.journal is not None:
            if (
                report.verdicts
            ):  # a misspelt target must not take the place of the findings before it
                report.save(self.options.folder / LAST)
            self.journal.close(finished=complete)
        return report

    def _open_journal(self) -> tuple[list[Verdict], list[Problem]]:
        """The verdicts of an interrupted run of this very audit."""
        if self.options.folder is None:
            return [], []
        journal = Journal(
            self.options.folder, digest(self.targets, self.laws, self.settings, self.versions)
        )
        known, lost = ([], []) if self.options.fresh else journal.read()
        known = [verdict for verdict in known if verdict.target in self.done]
        try:
            journal.open(known, lost)
        except ReportError as error:
            self.listener.notice(f"nothing is kept of this audit: {error}")
            return known, lost
        self.journal = journal
        return known, lost

    def _run(self) -> None:
        """Pairs of live objects here, and the others in workers if there are to be any."""
        local = self.options.jobs == 0
        if not local and any(target.adapter == OBJECT for target in self.targets):
            self.listener.notice(
                "live objects cannot travel to workers: everything runs in this process"
            )
            local = True
        if local:
            self._run_here()
        else:
            with Pool(
                self.options.jobs,
                self.settings,
                self.options.limits,
                self.options.entry,
                self.frameworks,
            ) as pool:
                self._consume(pool.run(self.schedule))

    def _run_here(self) -> None:
        def here() -> Iterator[tuple[Pair, Outcome | Broken | None]]:
            last, entry = None, resolve(self.options.entry)
            while (pair := self.schedule.next(last)) is not None:
                yield pair, None
                last = pair.target
                yield (
                    pair,
                    guarded(entry, pair.target, pair.law.id if pair.law else None, self.settings),
                )

        for name in self.frameworks:  # so that settings are saved around the very first pair, too
            with contextlib.suppress(ImportError):
                importlib.import_module(backends.find(name).requires)
        self._consume(here())

    def _consume(self, events: Iterator[tuple[Pair, Outcome | Broken | None]]) -> None:
        for pair, outcome in events:
            if outcome is None:
                self.listener.start(pair)
            elif pair.law is None:
                self._enter_probe(pair, outcome)
            else:
                self._keep_all(
                    self.schedule.enter(settle(pair, outcome), pair.target), journal=True
                )
            if time.monotonic() - self.began > self.options.budget:
                reason = f"the budget of {self.options.budget:g} s was spent before this pair"
                self._keep_all(self.schedule.abandon_all(reason))

    def _enter_probe(self, pair: Pair, outcome: Outcome | Broken) -> None:
        if isinstance(outcome, Broken):
            broken = self.schedule.broken_probe(
                pair.target, outcome.status, outcome.reason, outcome.seconds
            )
            self._keep_all(broken, journal=True)
        elif outcome.raised:
            self.schedule.drop(pair.target)
            message = outcome.raised
            if str(pair.target) not in message:
                message = f"{pair.target} cannot be loaded: {message}"
            problem = Problem(str(pair.target), message)
            if self.journal is not None:
                self.journal.fail(problem)
            self._lose(problem)
        else:
            self.schedule.loaded(pair.target)

    def _lose(self, problem: Problem) -> None:
        """A target that cannot be loaded has no verdicts."""
        self.problems.append(problem)
        self.done.pop(problem.spec, None)
        self.listener.problem(problem)

    def _keep_all(self, verdicts: Iterable[Verdict], *, journal: bool = False) -> None:
        for verdict in verdicts:
            if journal and self.journal is not None:
                self.journal.add(verdict)
            self._keep(verdict)

    def _keep(self, verdict: Verdict) -> None:
        self.verdicts[verdict.target, verdict.law] = verdict
        self.listener.verdict(verdict)
        group = self.done[verdict.target]
        group.append(verdict)
        if len(group) == len(self.laws):
            target = next(target for target in self.targets if str(target) == verdict.target)
            self.listener.target(target, sorted(group, key=lambda found: found.law))

    def report(self, *, complete: bool) -> Report:
        """Everything so far, in the order of targets and laws."""
        names = [name for name in map(str, self.targets) if name in self.done]
        interrupted = "the audit was interrupted before this pair was done"
        verdicts = [
            self.verdicts.get((name, law.id))
            or Verdict(
                name, law.id, Status.NOT_RUN, interrupted, law_version=law.version, force=law.force
            )
            for name in names
            for law in self.laws
        ]
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
            environment, tuple(notes), tuple(names), tuple(verdicts), tuple(self.problems), complete
        )


def settle(pair: Pair, outcome: Outcome | Broken) -> Verdict:
    """The verdict on a pair. A failed allocation is the memory limit's doing: it accuses nobody."""
    if isinstance(outcome, Broken):
        return pair.verdict(outcome.status, outcome.reason, outcome.seconds)
    verdict = outcome.verdict or pair.verdict(
        Status.ERROR, outcome.raised or "it gave no verdict", outcome.seconds
    )
    if verdict.status in (Status.ERROR, Status.VIOLATED) and OUT_OF_MEMORY.search(verdict.reason):
        return pair.verdict(Status.CRASHED, f"memory limit: {verdict.reason}", verdict.seconds)
    return verdict
