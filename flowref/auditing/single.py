"""Pairs judged one at a time in this process, for a test runner."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from flowref import checking
from flowref.auditing.pair_verdict import final, loading_refusal, not_run, outcome_verdict
from flowref.auditing.places import bounded
from flowref.auditing.pool import Broken
from flowref.auditing.schedule import STRIKES, ScheduledPair
from flowref.auditing.selection import frameworks
from flowref.auditing.worker import PairOutcome, Replay, check_pair, import_frameworks, undisturbed
from flowref.baseline.entry import Baseline
from flowref.baseline.failure_status import known_failure, stand
from flowref.checking import Settings
from flowref.model import (
    Counterexample,
    KnownFailure,
    Law,
    Recognized,
    Standing,
    Status,
    Target,
    TargetError,
    Verdict,
)
from flowref.reporting.outcomes import fails


@dataclass(frozen=True)
class Judged:
    """The verdict on a pair, and its known failure, if any."""

    verdict: Verdict
    known: KnownFailure | None = None

    @property
    def fails(self) -> bool:
        """Whether it fails in a way that is not known."""
        accepted = self.known is not None and self.known.standing is Standing.KNOWN
        return fails(self.verdict) and not accepted


@dataclass
class Judge:
    """Checks pairs with the same settings, in the folder to which paths are relative. A target is
    loaded first, and abandoned after two time-outs.
    """

    settings: Settings
    folder: Path
    recognized: dict[Target, Recognized] = field(default_factory=dict)
    unloadable: dict[Target, str] = field(default_factory=dict)
    strikes: Counter[Target] = field(default_factory=Counter)

    def load(self, target: Target) -> None:
        """Load a target, once. Raises: `TargetError`, at each call, if that fails."""
        __tracebackhide__ = True
        if target not in self.recognized and target not in self.unloadable:
            import_frameworks(frameworks([target]))
            outcome = self._run(target, None, None)
            if isinstance(outcome, Broken):
                self.unloadable[target] = f"{target} cannot be loaded: {outcome.reason}"
            elif outcome.raised or outcome.recognized is None:
                self.unloadable[target] = loading_refusal(target, outcome.raised)
            else:
                self.recognized[target] = outcome.recognized
        if target in self.unloadable:
            raise TargetError(self.unloadable[target])

    def about_others(self, target: Target, laws: Iterable[Law]) -> tuple[Verdict, ...]:
        """Return the verdicts on laws that do not apply to a target, as far as known without
        measuring. Raises: `TargetError` if the target cannot be loaded.
        """
        __tracebackhide__ = True
        self.load(target)
        found: list[Verdict] = []
        with contextlib.chdir(self.folder), undisturbed():
            for law in laws:
                with contextlib.suppress(Exception):  # the measurement will report it
                    verdict = checking.unmeasured(target, law, self.settings)
                    found += [] if verdict is None else [verdict]
        return tuple(found)

    def judge(self, target: Target, law: Law, baseline: Baseline | None = None) -> Judged:
        """Return the verdict on a pair, and its standing in a baseline. Raises: `TargetError` if
        the target cannot be loaded.
        """
        __tracebackhide__ = True
        self.load(target)
        if self.strikes[target] >= STRIKES:
            return Judged(not_run(str(target), law, f"the target ran out of time {STRIKES} times"))
        entry = None if baseline is None else baseline.entry(str(target), law.id)
        if baseline is None or entry is None:
            return Judged(self._settled(target, law))
        pinned, replayed = baseline.pinned(entry), None
        if pinned is not None and (pinned.target, pinned.law) != (str(target), law.id):
            pinned = None
        if pinned is not None and pinned.counterexample is not None:
            replayed = self._settled(target, law, pinned.counterexample)
        verdict = final(self._settled(target, law), replayed, law)
        standing, detail = stand(entry, pinned, verdict, replayed)
        if standing is Standing.FIXED and entry.is_glob:  # it may fail elsewhere
            return Judged(verdict)
        return Judged(verdict, known_failure(entry, str(target), standing, detail))

    def _settled(self, target: Target, law: Law, case: Counterexample | None = None) -> Verdict:
        pair = ScheduledPair(target, law, case)
        verdict = outcome_verdict(pair, self._run(target, law, case))
        self.strikes[target] += verdict.status is Status.TIMEOUT
        return verdict

    def _run(
        self, target: Target, law: Law | None, case: Counterexample | None
    ) -> PairOutcome | Broken:
        how = self.settings if case is None else Replay(case, self.settings)
        with contextlib.chdir(self.folder):
            return bounded(check_pair, target, law, how, self.settings.seconds)
