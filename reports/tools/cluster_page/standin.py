"""A stand-in for `flowref.checking.pair_verdict`: a pair that takes as many milliseconds of CPU time as
the target's name says, and nothing else.
"""

from __future__ import annotations

import time
from typing import Any

from flowref.model import Counts, Recognized, Status, Target, Verdict


def check(target: Target, law: str | None, settings: Any) -> Verdict | Recognized:
    """Compute for a while, and hold."""
    if law is None:
        return Recognized("stand-in")
    until = time.process_time() + milliseconds(str(target)) / 1000
    while time.process_time() < until:
        pass
    return Verdict(str(target), law, Status.HOLDS, counts=Counts(held=1))


def milliseconds(spec: str) -> int:
    """What a pair of a target takes.

    >>> milliseconds(spec(50, 1))
    50
    """
    return int(spec.rpartition(":")[2].split("_")[1])


def spec(cost: int, number: int) -> str:
    """One of several targets whose pairs take so many milliseconds."""
    return f"standin.py:pair_{cost}_{number}"
