"""What flowref keeps during a session of tests: settings, known failures, and who judges."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from flowref import registry
from flowref.baseline.entry import Baseline, Entry
from flowref.baseline.reading import PROJECT, load
from flowref.baseline.targets import PROFILES, Defaults, defaults, with_event
from flowref.model import OBJECT, SpecError, Target, TargetError, nearest, one_line
from flowref.pytest.conformance import Conformance, is_factory, name_of, wants
from flowref.pytest.pair import Candidate, Pair

if TYPE_CHECKING:
    from flowref.auditing.single import Judge, Judged
    from flowref.model import Law, Recognized


@dataclass
class Session:
    """The state of one process. ``folder``: that of pyproject.toml, from which paths are meant;
    ``common``: what it says of all targets.
    """

    folder: Path
    profile: str = "standard"
    seed: int = 0
    seconds: float = 60.0
    baseline: Baseline = field(default_factory=Baseline)
    common: Defaults = field(default_factory=Defaults)
    judges: dict[str, Judge] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    told: set[Candidate] = field(default_factory=set)
    shown: set[Target] = field(default_factory=set)

    def judge(self, pair: Pair) -> Judged:
        """What comes of a pair."""
        __tracebackhide__ = True
        judge = self._judge(pair.profile or self.profile)
        return judge.judge(self._target(pair.candidate), pair._law, pair.baseline)

    def recognized(self, pair: Pair) -> Recognized | None:
        """What the target of a pair was taken for; told once for each target."""
        target = pair.candidate.found
        if target is None or target in self.shown:
            return None
        self.shown.add(target)
        return self._judge(pair.profile or self.profile).recognized.get(target)

    def said(self, candidate: Candidate) -> bool:
        """Whether it was said before that a target cannot be loaded."""
        before = candidate in self.told
        self.told.add(candidate)
        return before

    def pairs(self, wanted: Conformance, home: str) -> list[Pair]:
        """The pairs of a test function whose id is ``home``, sorted by target and law. What
        libraries warn of when a glob imports them is their affair.

        Raises: `SpecError` for targets, laws and known failures that do not exist.
        """
        from flowref.auditing.selection import select_laws

        if wanted.profile and wanted.profile not in PROFILES:
            raise SpecError(
                f"the profile is {wanted.profile!r}{nearest(wanted.profile, PROFILES)}; expected "
                f"one of {', '.join(PROFILES)}"
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            laws = select_laws(wanted.laws or self.common.laws, self.common.ignore)
            chosen = _distinct(self._candidates(wanted))
        for one in chosen:
            one.title = self._title(one.id, home)
        baseline = self._with_own(chosen, laws, wanted.known)
        profile = PROFILES.get(wanted.profile, "")
        return [
            Pair(self, candidate, law, baseline, profile)
            for candidate in sorted(chosen, key=lambda one: (one.id.casefold(), one.id))
            for law in laws
        ]

    def _judge(self, profile: str) -> Judge:
        from flowref.auditing.single import Judge
        from flowref.checking import Settings

        if profile not in self.judges:
            settings = Settings(profile, self.seed, seconds=self.seconds)
            self.judges[profile] = Judge(settings, self.folder)
        return self.judges[profile]

    def _candidates(self, wanted: Conformance) -> Iterator[Candidate]:
        for one in wanted.targets:
            what, marks = one.what, one.marks
            if isinstance(what, Target):
                target = with_event(what, wanted.event)
                yield Candidate(one.id or str(what), target, marks=marks)
            elif isinstance(what, str):
                for target in registry.expand(what):
                    meant = with_event(target, wanted.event)
                    yield Candidate(one.id or str(target), meant, marks=marks)
            else:
                yield Candidate(one.id or name_of(what), what, wanted.event, marks)

    def _title(self, name: str, home: str) -> str:
        """What the target of a live object is called, of which there is one in the session."""
        if self.titles.setdefault(name, home) != home:
            return f"{name}@{home}"
        return name

    def _with_own(
        self,
        chosen: list[Candidate],
        laws: tuple[Law, ...],
        known: Mapping[str | tuple[str, str], str],
    ) -> Baseline:
        """The known failures of the project, after those that a test function names."""
        entries = []
        ids = [law.id for law in laws]
        for key, reason in known.items():
            name, law = ("", key) if isinstance(key, str) else key
            own = [one for one in chosen if name in ("", one.id)]
            if not own:
                names = [one.id for one in chosen]
                raise SpecError(
                    f"known failures name the target {name!r}{nearest(name, names)}; expected one "
                    f"of {', '.join(names[:20])}"
                )
            law = registry.find_law(law).id
            if law not in ids:
                raise SpecError(
                    f"known failures name the law {law}, which is not among the laws of this test"
                )
            entries += [Entry(_name(one), law, reason) for one in own]
        if not entries:
            return self.baseline
        declared = (*entries, *self.baseline.declared)
        return Baseline(declared, self.baseline.recorded, self.baseline.cases)

    def _target(self, candidate: Candidate) -> Target:
        """The target of a candidate; live objects are copied now, and factories called."""
        __tracebackhide__ = True
        if candidate.found is None:
            if isinstance(candidate.what, Target):
                candidate.found = candidate.what
            else:
                candidate.found = _registered(candidate)
        return candidate.found


def begun(folder: Path, profile: str, seed: int, seconds: float) -> Session:
    """A session in the folder of a project, with its known failures. Raises: `BaselineError` where
    these cannot be read.
    """
    known, common = load(None, folder), defaults(folder / PROJECT)
    return Session(folder, PROFILES[profile], seed, seconds, known, common)


def _registered(candidate: Candidate) -> Target:
    """A live object as a target under its name."""
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
    renamed = with_event(target, candidate.event)
    loading.LIVE[renamed] = loading.LIVE[target]
    return renamed


def _name(candidate: Candidate) -> str:
    """What entries about a candidate name: of a live object what it is called, with any options."""
    what = candidate.what
    return str(what) if isinstance(what, Target) else f"{OBJECT}:{candidate.title}"


def _distinct(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Candidates of which none has the id of another: specs once, and other things counted."""
    chosen: dict[str, Candidate] = {}
    for candidate in candidates:
        name, number = candidate.id, 1
        other = chosen.get(name)
        if other is not None and isinstance(other.what, Target) and other.what == candidate.what:
            continue
        while candidate.id in chosen:
            number += 1
            candidate.id = f"{name}-{number}"
        chosen[candidate.id] = candidate
    return list(chosen.values())
