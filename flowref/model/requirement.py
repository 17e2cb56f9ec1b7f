"""Conditions under which a law speaks, with the reason that is given where they are not met."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flowref.model.errors import Unsupported


@dataclass(frozen=True)
class Requirement:
    """A predicate of a flow that is true where a law speaks.

    ``otherwise``: the reason where it is false. A predicate that knows a better one raises
    `Unsupported` with it. ``a & b`` asks for both, in this order.
    """

    test: Callable[[Any], bool]
    otherwise: str

    def unmet(self, flow: Any) -> str | None:
        """Why a flow does not meet the requirement, or None if it does."""
        try:
            return None if self.test(flow) else self.otherwise
        except Unsupported as reason:
            return str(reason)

    def demand(self, flow: Any) -> None:
        """Raise `Unsupported` with the reason where a flow does not meet the requirement."""
        reason = self.unmet(flow)
        if reason is not None:
            raise Unsupported(reason)

    def __call__(self, flow: Any) -> bool:
        """Whether a flow meets the requirement."""
        return self.unmet(flow) is None

    def __and__(self, other: Requirement) -> Requirement:
        return Requirement(_Both(self, other), other.otherwise)


@dataclass(frozen=True)
class _Both:
    first: Requirement
    second: Requirement

    def __call__(self, flow: Any) -> bool:
        self.first.demand(flow)
        self.second.demand(flow)
        return True


def requires(otherwise: str) -> Callable[[Callable[[Any], bool]], Requirement]:
    """Declare a condition: ``@requires("it keeps no running statistics")`` on its predicate."""

    def declare(test: Callable[[Any], bool]) -> Requirement:
        return Requirement(test, otherwise)

    return declare
