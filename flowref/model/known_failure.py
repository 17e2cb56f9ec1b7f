"""Known failures: what a library's maintainers have recorded, and how it stands in an audit."""

from __future__ import annotations

import enum
from dataclasses import dataclass

# What is said of a case whose weights came from another file than they do now.
OTHER_WEIGHTS = "its weights are others by now"


class Standing(enum.StrEnum):
    """How a known failure stands. It overlays a verdict and never changes one."""

    KNOWN = "KNOWN"  # it fails as it is known to
    FIXED = "FIXED"  # it no longer fails: its entry is stale
    CHANGED = "CHANGED"  # it fails otherwise, which is new
    EXPIRED = "EXPIRED"  # it fails, and the date up to which that was accepted has passed
    UNDECIDED = "UNDECIDED"  # it was not measured, or nothing could be said


@dataclass(frozen=True)
class KnownFailure:
    """One entry in an audit: for a pair that fails the pair, else the globs of the entry.

    ``reason``, ``issue`` and ``expires`` are the entry's; ``detail`` says why it stands so.
    """

    target: str
    law: str
    standing: Standing
    reason: str = ""
    detail: str = ""
    issue: str = ""
    expires: str = ""
