"""One target and one law, as a test meets them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flowref.auditing.single import Judged
    from flowref.baseline.entry import Baseline
    from flowref.model import Law, Target, Verdict
    from flowref.pytest.session import Session


class Candidate:
    """A target by the name that it has in ids of tests. ``what``: a `Target`, or a live object or a
    factory, which becomes one when its first test runs.
    """

    __slots__ = ("event", "found", "id", "marks", "title", "what")

    def __init__(self, name: str, what: Any, event: str = "", marks: Iterable[Any] = ()) -> None:
        self.id, self.what, self.event, self.marks = name, what, event, tuple(marks)
        self.title = name  # of a live object: what its target is called
        self.found: Target | None = None


class Pair:
    """One target and one law. ``target`` and ``law`` are their names."""

    __slots__ = (
        "_law",
        "baseline",
        "candidate",
        "judged",
        "problem",
        "profile",
        "quiet",
        "session",
    )

    def __init__(
        self,
        session: Session,
        candidate: Candidate,
        law: Law,
        baseline: Baseline,
        profile: str = "",
    ) -> None:
        self.session, self.candidate, self._law = session, candidate, law
        self.baseline, self.profile = baseline, profile
        self.judged: Judged | None = None
        self.problem = ""  # why the target cannot be loaded
        self.quiet = False  # the law is about something else: nobody wants a line about it

    def __repr__(self) -> str:
        return f"<{self.target} {self.law}>"

    @property
    def id(self) -> str:
        """What stands in brackets in the id of the test."""
        return f"{self.candidate.id}-{self._law.id}"

    @property
    def target(self) -> str:
        """The name of the target."""
        return self.candidate.id

    @property
    def law(self) -> str:
        """The id of the law."""
        return self._law.id

    @property
    def own_law(self) -> Law | None:
        """The law itself, if no catalogue has it."""
        from flowref.auditing.worker import name_of

        return None if isinstance(name_of(self._law), str) else self._law

    @property
    def verdict(self) -> Verdict:
        """What came of the law, measured when it is first asked for. Raises `TargetError` where the
        target cannot be loaded.
        """
        __tracebackhide__ = True
        if self.judged is None:
            self.judged = self.session.judge(self)
        return self.judged.verdict

    def check(self) -> None:
        """Pass if the law holds, and fail with what was seen if it is violated or breaks.

        A law that says nothing about this target, or that could not be decided, is skipped with the
        reason; a known failure is an expected one as long as it fails as it is known to.
        """
        __tracebackhide__ = True
        from flowref.model import Status, TargetError

        try:
            verdict = self.verdict
        except TargetError as error:
            self._unloadable(error)
        assert self.judged is not None
        if self.judged.known is not None:
            self._known(self.judged)
        if self.judged.fails:
            raise self._violation()
        if verdict.status in (Status.INCONCLUSIVE, Status.NOT_RUN):
            pytest.skip(f"{str(verdict.status).lower().replace('_', ' ')}: {verdict.reason}")
        if verdict.status is Status.NOT_APPLICABLE:
            self.quiet = True
            pytest.skip(f"not applicable: {verdict.reason}")

    def _unloadable(self, error: Exception) -> NoReturn:
        """Say once what is wrong with a target."""
        __tracebackhide__ = True
        self.problem = str(error)
        if self.session.said(self.candidate):
            self.quiet = True
            pytest.skip("not run: the target cannot be loaded")
        raise error

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
            way = one.detail or "it fails no more"
            pytest.fail(
                f"[XPASS(strict)] {self.law} is a known failure of {self.target} ({reason}), and "
                f"is fixed: {way}; take its entry off",
                pytrace=False,
            )
        if one.standing is Standing.UNDECIDED:
            pytest.skip(f"known failure, not decided: {one.detail or reason}")

    def _violation(self) -> Exception:
        from flowref.reporting.raising import violation

        assert self.judged is not None
        one, text = self.judged.known, ""
        if one is not None:
            text = f"known as {one.reason!r}, and {str(one.standing).lower()}: {one.detail}"
        return violation(self.judged.verdict, self._law.statement, text)
