"""A stand-in for `flowref.checking.pair_verdict` that says how much memory it needs, as its target's option caught_by_all, until it
is granted; and takes it then.
"""

from __future__ import annotations

from typing import Any

from flowref.model import Counts, Status, Target, Verdict, statement_of
from flowref.model.budget import MEBIBYTE


def check(target: Target, law: str | None, settings: Any) -> Verdict | None:
    """Ask for memory, or take it."""
    if law is None:
        return None
    needed = int(target.option("needs") or 0) if statement_of(law) == "map/log-det" else 0
    if needed > settings.memory:
        reason = f"not judged: it needs {needed / 1024:.1f} GiB: --memory {needed}"
        return Verdict(str(target), law, Status.INCONCLUSIVE, reason)
    taken = b"x" * (int(0.9 * needed) * MEBIBYTE)
    return Verdict(
        str(target), law, Status.HOLDS, f"with {settings.memory}", Counts(held=len(taken))
    )


def __getattr__(name: str) -> Any:
    """Targets are named that are not here: the stand-in goes by the name."""
    raise AttributeError(name)
