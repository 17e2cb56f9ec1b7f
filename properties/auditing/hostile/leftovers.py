"""A stand-in for `flowref.checking.pair_verdict` that leaves memory behind, in the manner that the target's name says;
its verdict caught_by_all which process it was made in.
"""

from __future__ import annotations

import os
from typing import Any

from flowref.model import Counts, Status, Target, Verdict

MEBIBYTE = 2**20
HELD: list[object] = []


def loaded() -> None:
    """What the target itself takes, once."""
    if not HELD:
        HELD.append(b"x" * (150 * MEBIBYTE))


def cycles() -> None:
    """What nobody holds, and only the collector finds."""
    ring: list[object] = [b"x" * (150 * MEBIBYTE)]
    ring.append(ring)


def scattered() -> None:
    """Free blocks between some that are held; and with each pair half of the limit for a moment."""
    b"x" * (150 * MEBIBYTE)
    if not HELD:
        blocks = [b"x" * (64 * 1024 + index % 2) for index in range(200 * 16)]
        HELD.extend(blocks[::4])


def leaks() -> None:
    """More with each pair."""
    HELD.append(b"x" * (60 * MEBIBYTE))


def check(target: Target, law: str | None, settings: Any) -> Verdict | None:
    """Leave something behind."""
    deed = globals()[target.component.rpartition(":")[2]]
    if law is not None or deed is loaded:
        deed()
    if law is None:
        return None
    return Verdict(str(target), law, Status.HOLDS, str(os.getpid()), Counts(held=1))
