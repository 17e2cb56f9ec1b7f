"""Obstacles to an audit, as values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One sentence on a spec that was not understood, a target that was not loaded, or an offer of another
    distribution that cannot be used.
    """

    spec: str
    message: str
