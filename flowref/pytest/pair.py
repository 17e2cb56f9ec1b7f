"""The tests of a target: loading it, and one test for each law."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flowref.auditing.single import Judged
    from flowref.baseline.entry import Baseline
    from flowref.model import Law, Recognized, Target, Verdict

LOAD = "load"


class Candidate:
    """A target under its name in test ids. ``what``: a `Target`, or a live object or a factory,
    which becomes one when it is loaded; ``silent``: verdicts of the laws that do not apply, after
    loading.
    """

    __slots__ = ("event", "found", "id", "marks", "profile", "silent", "title", "what")

    def __init__(
        self, name: str, what: Any, event: str = "", marks: Iterable[Any] = (), profile: str = ""
    ) -> None:
        self.id, self.what, self.event, self.marks = name, what, event, tuple(marks)
        self.profile = profile
        self.title = name  # the name of a live object's target
        self.found: Target | None = None
        self.silent: tuple[Verdict, ...] = ()


class PairSession(Protocol):
    """What a test needs of the session that it runs in; `session.Session` provides it."""

    profile: str
    strict: bool

    def load(self, candidate: Candidate) -> None:
        """Load a target. Raises: `TargetError`."""
        ...

    def judge(self, pair: Pair) -> Judged:
        """Measure one pair and compare it with the known failures."""
        ...

    def again(self, verdict: Verdict, recognized: Recognized | None = None) -> str:
        """The command that replays a failure; empty if no report is written."""
        ...

    def recognized(self, candidate: Candidate) -> Recognized | None:
        """What a target was recognized as; None before it is loaded."""
        ...

    def first(self, candidate: Candidate) -> bool:
        """Whether this is the first question about a target."""
        ...


class Load:
    """The test that a target can be loaded. ``bears``: whether this test fails if it cannot, rather
    than another one.
    """

    __slots__ = ("bears", "candidate", "problem", "quiet", "session")

    def __init__(self, session: PairSession, candidate: Candidate) -> None:
        self.session, self.candidate = session, candidate
        self.problem = ""  # why the target cannot be loaded
        self.quiet = False  # skipped for a reason that is reported once elsewhere
        self.bears = True

    @property
    def name(self) -> str:
        """The part of the test id after the target."""
        return LOAD

    @property
    def id(self) -> str:
        """The part of the test id in brackets."""
        return f"{self.candidate.id}-{self.name}"

    @property
    def target(self) -> str:
        """The name of the target."""
        return self.candidate.id

    @property
    def judged(self) -> Judged | None:
        """The verdict on the law with its known failure, None before it is measured."""
        return None

    @property
    def own_law(self) -> Law | None:
        """The law itself, if it is in no catalogue."""
        return None

    def check(self) -> None:
        """Pass if the target can be loaded."""
        __tracebackhide__ = True
        from flowref.model import TargetError

        try:
            self.session.load(self.candidate)
        except TargetError as error:
            self._unloadable(error)

    def _unloadable(self, error: Exception) -> NoReturn:
        """Fail, or skip if another test reports it."""
        __tracebackhide__ = True
        self.problem = str(error)
        if self.bears:
            raise error
        self.quiet = True
        pytest.skip("not run: cannot be loaded")


class Pair(Load):
    """One target and one law. ``target`` and ``law`` are their names."""

    __slots__ = ("_judged", "_law", "baseline")

    def __init__(
        self, session: PairSession, candidate: Candidate, law: Law, baseline: Baseline
    ) -> None:
        super().__init__(session, candidate)
        self._law, self.baseline = law, baseline
        self._judged: Judged | None = None
        self.bears = False

    def __repr__(self) -> str:
        return f"<{self.target} {self.law}>"

    @property
    def name(self) -> str:
        """The id of the law."""
        return self._law.id

    @property
    def law(self) -> str:
        """The id of the law."""
        return self._law.id

    @property
    def judged(self) -> Judged | None:
        """The verdict on the law with its known failure, None before it is measured."""
        return self._judged

    @property
    def own_law(self) -> Law | None:
        """The law itself, if it is in no catalogue."""
        from flowref.auditing.worker import law_id_or_self

        return None if isinstance(law_id_or_self(self._law), str) else self._law

    @property
    def verdict(self) -> Verdict:
        """The verdict on the law, measured at first access. Raises: `TargetError` if the target
        cannot be loaded.
        """
        __tracebackhide__ = True
        if self._judged is None:
            self._judged = self.session.judge(self)
        return self._judged.verdict

    def check(self) -> None:
        """Pass if the law holds or its violation is minor; fail, with the observed numbers, if it
        is violated or raises.

        A law that does not apply or is inconclusive is skipped with the reason; a known failure is
        an xfail as long as it fails as recorded.
        """
        __tracebackhide__ = True
        from flowref.model import Status, TargetError

        try:
            verdict = self.verdict
        except TargetError as error:
            self._unloadable(error)
        assert self._judged is not None
        if self._judged.known is not None:
            self._end_by_known_failure(self._judged)
        if self._judged.fails or (verdict.minor and self.session.strict):
            raise self._violation()
        if verdict.status in (Status.INCONCLUSIVE, Status.NOT_RUN):
            pytest.skip(f"{str(verdict.status).lower().replace('_', ' ')}: {verdict.reason}")
        if verdict.status is Status.NOT_APPLICABLE:
            self.quiet = True
            pytest.skip(f"not applicable: {verdict.reason}")

    def _end_by_known_failure(self, judged: Judged) -> None:
        """End the test by the status of a known failure; return if it fails in another way."""
        __tracebackhide__ = True
        from flowref.model import Standing

        assert judged.known is not None
        one = judged.known
        reason = f"{one.reason} ({one.issue})" if one.issue else one.reason
        if one.standing is Standing.KNOWN:
            pytest.xfail(reason)
        if one.standing is Standing.FIXED:
            way = one.detail or "it no longer fails"
            pytest.fail(
                f"[XPASS(strict)] {self.law} is a known failure of {self.target} ({reason}), and "
                f"is fixed: {way}; remove its entry",
                pytrace=False,
            )
        if one.standing is Standing.UNDECIDED:
            pytest.skip(f"known failure, not decided: {one.detail or reason}")

    def _violation(self) -> Exception:
        from flowref.reporting.violation_errors import violation

        assert self._judged is not None
        one, text = self._judged.known, ""
        if one is not None:
            text = f"known as {one.reason!r}, and {str(one.standing).lower()}: {one.detail}"
        verdict, session = self._judged.verdict, self.session
        taken = session.recognized(self.candidate)
        again = session.again(verdict, taken)
        return violation(verdict, self._law.statement, text, taken, again)
