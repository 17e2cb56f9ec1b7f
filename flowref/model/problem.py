"""What stands in the way of auditing something, as a value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """A spec that could not be understood, a target that could not be loaded, or an offer of
    another distribution that cannot be used: one sentence.
    """

    spec: str
    message: str
