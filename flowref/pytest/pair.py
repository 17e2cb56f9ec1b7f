"""What the tests of a target are: loading it, and one law each."""

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
    """A target by the name that it has in ids of tests. ``what``: a `Target`, or a live object or a
    factory, which becomes one when it is loaded; ``silent``: verdicts on the laws that do not apply, once
    it was.
    """

    __slots__ = ("event", "found", "id", "marks", "profile", "silent", "title", "what")

    def __init__(
        self, name: str, what: Any, event: str = "", marks: Iterable[Any] = (), profile: str = ""
    ) -> None:
        self.id, self.what, self.event, self.marks = name, what, event, tuple(marks)
        self.profile = profile
        self.title = name  # of a live object: what its target is called
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

    def again(self, verdict: Verdict) -> str:
        """The command that replays a failure; empty if no report is written."""
        ...

    def recognized(self, candidate: Candidate) -> Recognized | None:
        """What a target was recognized as; None before it is loaded."""
        ...

    def first(self, candidate: Candidate) -> bool:
        """Whether this is the first question about a target."""
        ...


class Load:
    """Whether a target can be loaded. ``bears``: whether this test fails where it cannot, and does not
    leave that to another one.
    """

    __slots__ = ("bears", "candidate", "problem", "quiet", "session")

    def __init__(self, session: PairSession, candidate: Candidate) -> None:
        self.session, self.candidate = session, candidate
        self.problem = ""  # why the target cannot be loaded
        self.quiet = False  # the test was skipped for a reason that another line tells
        self.bears = True

    @property
    def name(self) -> str:
        """What stands behind the target in the id of the test."""
        return LOAD

    @property
    def id(self) -> str:
        """What stands in brackets in the id of the test."""
        return f"{self.candidate.id}-{self.name}"

    @property
    def target(self) -> str:
        """The name of the target."""
        return self.candidate.id

    @property
    def judged(self) -> Judged | None:
        """What came of the law, as far as it was measured."""
        return None

    @property
    def own_law(self) -> Law | None:
        """The law itself, if no catalogue has it."""
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
        """Fail, or leave it to the test that bears it."""
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
        """What came of the law, as far as it was measured."""
        return self._judged

    @property
    def own_law(self) -> Law | None:
        """The law itself, if no catalogue has it."""
        from flowref.auditing.worker import law_id_or_self

        return None if isinstance(law_id_or_self(self._law), str) else self._law

    @property
    def verdict(self) -> Verdict:
        """What came of the law, measured when it is first asked for. Raises `TargetError` where the
        target cannot be loaded.
        """
        __tracebackhide__ = True
        if self._judged is None:
            self._judged = self.session.judge(self)
        return self._judged.verdict

    def check(self) -> None:
        """Pass if the law holds or its violation is minor, and fail with what was seen if it is violated or
        breaks.

        A law that does not apply to this target, or that could not be decided, is skipped with the
        reason; a known failure is an expected one as long as it fails as it is known to.
        """
        __tracebackhide__ = True
        from flowref.model import Status, TargetError

        try:
            verdict = self.verdict
        except TargetError as error:
            self._unloadable(error)
        assert self._judged is not None
        if self._judged.known is not None:
            self._known(self._judged)
        if self._judged.fails or (verdict.minor and self.session.strict):
            raise self._violation()
        if verdict.status in (Status.INCONCLUSIVE, Status.NOT_RUN):
            pytest.skip(f"{str(verdict.status).lower().replace('_', ' ')}: {verdict.reason}")
        if verdict.status is Status.NOT_APPLICABLE:
            self.quiet = True
            pytest.skip(f"not applicable: {verdict.reason}")

    def _known(self, judged: Judged) -> None:
        """End the test by how a known failure stands; return where it fails otherwise."""
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
        taken, again = session.recognized(self.candidate), session.again(verdict)
        return violation(verdict, self._law.statement, text, taken, again)
