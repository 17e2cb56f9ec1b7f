"""Known failures: recorded by a library's maintainers, and their standing in an audit."""

from __future__ import annotations

import enum
from dataclasses import dataclass

# For a case recorded with other weights.
OTHER_WEIGHTS = "its weights have changed since"


class Standing(enum.StrEnum):
    """The standing of a known failure. It accompanies a verdict and never changes it."""

    KNOWN = "KNOWN"  # fails as recorded
    FIXED = "FIXED"  # no longer fails: the entry is stale
    CHANGED = "CHANGED"  # fails in another way, which is new
    EXPIRED = "EXPIRED"  # fails, and was accepted up to a date that has passed
    UNDECIDED = "UNDECIDED"  # not measured, or inconclusive


@dataclass(frozen=True)
class KnownFailure:
    """One entry in an audit: with the failing pair, else with the globs of the entry.

    ``reason``, ``issue`` and ``expires``: of the entry; ``detail``: why it has this standing.
    """

    target: str
    law: str
    standing: Standing
    reason: str = ""
    detail: str = ""
    issue: str = ""
    expires: str = ""
