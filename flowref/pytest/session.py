"""The state of a test session: settings, known failures and judges."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flowref import registry
from flowref.baseline.baseline_parser import PROJECT, load_baseline
from flowref.baseline.entry import Baseline, Entry
from flowref.baseline.targets import PROFILES, Defaults, defaults, with_event
from flowref.model import OBJECT, SpecError, Target, TargetError, nearest, one_line
from flowref.model.factories import is_factory, wants
from flowref.pytest.conformance import Conformance, object_name
from flowref.pytest.pair import Candidate, Load, Pair
from flowref.pytest.report_location import StoredReport

if TYPE_CHECKING:
    from flowref.auditing.single import Judge, Judged
    from flowref.model import Law, Recognized, Verdict


@dataclass
class Session:
    """The state of one process. ``folder``: that of pyproject.toml, to which paths are relative;
    ``kept``: where the report is written; ``strict``: whether minor violations fail; ``common``:
    the project's defaults.
    """

    folder: Path
    profile: str = "standard"
    seed: int = 0
    seconds: float = 60.0
    kept: StoredReport = field(default_factory=StoredReport)
    strict: bool = False
    baseline: Baseline = field(default_factory=Baseline)
    common: Defaults = field(default_factory=Defaults)
    judges: dict[str, Judge] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    failed: dict[Candidate, str] = field(default_factory=dict)
    shown: set[Target | None] = field(default_factory=set)

    def load(self, candidate: Candidate) -> None:
        """Load a target. Raises: `TargetError`, at each call, if that fails."""
        __tracebackhide__ = True
        self._judge(candidate).load(self._target(candidate))

    def judge(self, pair: Pair) -> Judged:
        """Measure a pair and compare it with the known failures."""
        __tracebackhide__ = True
        judge = self._judge(pair.candidate)
        return judge.judge(self._target(pair.candidate), pair._law, pair.baseline)

    def again(self, verdict: Verdict, recognized: Recognized | None = None) -> str:
        """The command that replays a failure; empty if no report is written."""
        from flowref.reporting.words import again

        if self.kept.path is None:
            return ""
        options = ("--report", self.kept.path) if self.kept.path else ()
        return self.kept.before + (again(verdict, *options, recognized=recognized) or [""])[-1]

    def recognized(self, candidate: Candidate) -> Recognized | None:
        """What a target was recognized as; None before it is loaded."""
        found = candidate.found
        return None if found is None else self._judge(candidate).recognized.get(found)

    def first(self, candidate: Candidate) -> bool:
        """Whether this is the first question about a target."""
        known = candidate.found in self.shown
        self.shown.add(candidate.found)
        return not known

    def applying(self, tests: Iterable[Load]) -> list[Load]:
        """Return the tests without those whose laws do not apply. Targets that cannot be loaded
        keep theirs and are loaded again when these run.
        """
        groups: dict[Candidate, list[Load]] = {}
        for test in tests:
            groups.setdefault(test.candidate, []).append(test)
        return [test for one, own in groups.items() for test in self._applying(one, own)]

    def _applying(self, candidate: Candidate, tests: list[Load]) -> list[Load]:
        judge = self._judge(candidate)
        laws = [test._law for test in tests if isinstance(test, Pair)]
        try:
            found = judge.about_others(self._target(candidate), laws)
        except TargetError:
            judge.unloadable.clear()
            self.failed.clear()
            return tests
        candidate.silent = (*candidate.silent, *found)
        silent = {verdict.law for verdict in found}
        return [test for test in tests if test.name not in silent]

    def tests(self, wanted: Conformance, home: str) -> list[Load]:
        """Return the tests of a function whose id is ``home``, sorted by target and law. Warnings
        of libraries imported for a glob are ignored.

        Raises: `SpecError` for unknown targets, laws and known failures.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            chosen = _distinct(self._candidates(wanted))
        for one, _ in chosen:
            one.title = self._title(one.id, home)
        baseline = self._baseline_with_own(chosen, wanted.known)
        return [
            test
            for one, laws in sorted(chosen, key=lambda pair: (pair[0].id.casefold(), pair[0].id))
            for test in (Load(self, one), *(Pair(self, one, law, baseline) for law in laws))
        ]

    def _judge(self, candidate: Candidate) -> Judge:
        from flowref.auditing.single import Judge
        from flowref.checking import Settings

        profile = candidate.profile or self.profile
        if profile not in self.judges:
            settings = Settings(profile, self.seed, seconds=self.seconds)
            self.judges[profile] = Judge(settings, self.folder)
        return self.judges[profile]

    def _candidates(self, wanted: Conformance) -> Iterator[tuple[Candidate, tuple[Law, ...]]]:
        from flowref.auditing.selection import select_laws

        for one in wanted.targets:
            if one.profile and one.profile not in PROFILES:
                raise SpecError(
                    f"the profile is {one.profile!r}{nearest(one.profile, PROFILES)}; expected "
                    f"one of {', '.join(PROFILES)}"
                )
            what, profile = one.what, PROFILES.get(one.profile, "")
            laws = select_laws(one.laws or self.common.laws, self.common.ignore)
            found = registry.expand(what) if isinstance(what, str) else [what]
            for value in found:
                live = not isinstance(value, Target)
                name = one.id or (object_name(value) if live else str(value))
                meant = value if live else with_event(value, one.event)
                yield Candidate(name, meant, one.event, one.marks, profile), laws

    def _title(self, name: str, home: str) -> str:
        """The name of a live object's target, unique in the session."""
        if self.titles.setdefault(name, home) != home:
            return f"{name}@{home}"
        return name

    def _baseline_with_own(
        self,
        chosen: list[tuple[Candidate, tuple[Law, ...]]],
        known: Mapping[str | tuple[str, str], str],
    ) -> Baseline:
        """The known failures of a test function before those of the project. Raises: `SpecError`
        for unknown ones.
        """
        entries = []
        for key, reason in known.items():
            name, law = ("", key) if isinstance(key, str) else key
            own = [(one, laws) for one, laws in chosen if name in ("", one.id)]
            if not own:
                names = [one.id for one, _ in chosen]
                raise SpecError(
                    f"known failures name the target {name!r}{nearest(name, names)}; expected one "
                    f"of {', '.join(names[:20])}"
                )
            law = registry.find_law(law).id
            own = [(one, laws) for one, laws in own if law in {each.id for each in laws}]
            if not own:
                raise SpecError(
                    f"known failures name the law {law}, which is not among the laws of this test"
                )
            entries += [Entry(_candidate_name(one), law, reason) for one, _ in own]
        if not entries:
            return self.baseline
        declared = (*entries, *self.baseline.declared)
        return Baseline(declared, self.baseline.recorded, self.baseline.cases)

    def _target(self, candidate: Candidate) -> Target:
        """The target of a candidate; live objects are copied now, and factories called. Raises:
        `TargetError`.
        """
        __tracebackhide__ = True
        if candidate in self.failed:
            raise TargetError(self.failed[candidate])
        if candidate.found is None:
            if isinstance(candidate.what, Target):
                candidate.found = candidate.what
            else:
                try:
                    candidate.found = _registered(candidate)
                except TargetError as error:
                    self.failed[candidate] = str(error)
                    raise
        return candidate.found


def begun(config: pytest.Config) -> Session:
    """Return the session of a project, with its known failures. Raises: `BaselineError` if these
    cannot be read.
    """
    folder, option = config.rootpath, config.option
    return Session(
        folder,
        PROFILES[option.flowref_profile],
        option.flowref_seed,
        option.flowref_timeout,
        StoredReport.of(config),
        option.flowref_strict,
        load_baseline(None, folder),
        defaults(folder / PROJECT),
    )


def _registered(candidate: Candidate) -> Target:
    __tracebackhide__ = True
    from flowref import loading
    from flowref.auditing.worker import undisturbed

    what = candidate.what
    wanted = wants(what)
    if wanted:
        raise TargetError(
            f"{candidate.id} is a factory that wants {', '.join(wanted)}; give one that can be "
            f"called without arguments, as lambda: {candidate.id}(...), by a name in a mapping"
        )
    try:
        with undisturbed():
            obj = what() if is_factory(what) else what
            target = loading.snapshot(obj, candidate.title)
    except Exception as error:
        raise TargetError(f"{candidate.id} cannot be made: it raises {one_line(error)}") from error
    return loading.alias_live_target(target, with_event(target, candidate.event))


def _candidate_name(candidate: Candidate) -> str:
    """The target that entries about a candidate name."""
    what = candidate.what
    return str(what) if isinstance(what, Target) else f"{OBJECT}:{candidate.title}"


def _distinct(
    candidates: Iterable[tuple[Candidate, tuple[Law, ...]]],
) -> list[tuple[Candidate, tuple[Law, ...]]]:
    """Candidates with distinct ids: duplicate specs are dropped, other duplicates numbered."""
    chosen: dict[str, tuple[Candidate, tuple[Law, ...]]] = {}
    for candidate, laws in candidates:
        name, number = candidate.id, 1
        other = chosen[name][0] if name in chosen else None
        if other is not None and isinstance(other.what, Target) and other.what == candidate.what:
            continue
        while candidate.id in chosen:
            number += 1
            candidate.id = f"{name}-{number}"
        chosen[candidate.id] = candidate, laws
    return list(chosen.values())
