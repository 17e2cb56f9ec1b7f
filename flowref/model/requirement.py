"""Conditions under which a law applies, each with the reason that is reported otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flowref.model.errors import Unsupported
from flowref.model.not_judged import NotJudged


@dataclass(frozen=True)
class Requirement:
    """A predicate of a flow that is true if a law applies.

    ``otherwise``: the reason if it is false; ``blocked`` and ``remedy``: as in `NotJudged`. A predicate with a
    more specific reason raises `Unsupported` with it. ``a & b`` requires both, in this order.
    """

    test: Callable[[Any], bool]
    otherwise: str
    blocked: bool = False
    remedy: str = ""

    def unmet(self, flow: Any) -> NotJudged | None:
        """Why a flow does not meet the requirement; None if it does."""
        try:
            if self.test(flow):
                return None
        except Unsupported as refusal:
            blocked = self.blocked if refusal.blocked is None else refusal.blocked
            return NotJudged(str(refusal), blocked, refusal.remedy or self.remedy)
        return NotJudged(self.otherwise, self.blocked, self.remedy)

    def demand(self, flow: Any) -> None:
        """Raise `Unsupported` with the reason if a flow does not meet the requirement."""
        silence = self.unmet(flow)
        if silence is not None:
            raise Unsupported(silence.reason, blocked=silence.blocked, remedy=silence.remedy)

    def __call__(self, flow: Any) -> bool:
        """Whether a flow meets the requirement."""
        return self.unmet(flow) is None

    def __and__(self, other: Requirement) -> Requirement:
        return Requirement(_Both(self, other), other.otherwise, other.blocked, other.remedy)


@dataclass(frozen=True)
class _Both:
    first: Requirement
    second: Requirement

    def __call__(self, flow: Any) -> bool:
        self.first.demand(flow)
        self.second.demand(flow)
        return True


def requires(
    otherwise: str, *, blocked: bool = False, remedy: str = ""
) -> Callable[[Callable[[Any], bool]], Requirement]:
    """Declare a condition: ``@requires("it keeps no running statistics")`` on its predicate.

    ``blocked``: True if the unmet condition leaves an applicable law untested, rather than showing that the
    subject is of another kind; ``remedy``: what a user can declare to change that.
    """

    def declare(test: Callable[[Any], bool]) -> Requirement:
        return Requirement(test, otherwise, blocked, remedy)

    return declare
