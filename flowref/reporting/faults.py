"""Where in a user's source a violation is to be looked for."""

from __future__ import annotations

from flowref.model import Recognized, Verdict
from flowref.reporting.text import clean


def fault(verdict: Verdict, recognized: Recognized | None) -> str:
    """The file and line of the target, for a reader; empty where the source is not known."""
    if recognized is None or not recognized.path:
        return ""
    return clean(f"{recognized.path}:{recognized.line}")
