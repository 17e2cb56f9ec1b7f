"""Seeds: numbers made from values, so that nothing that is drawn depends on order or process.

Two ways of writing the values down, both kept: each stands behind draws, and so behind published
verdicts.
"""

from __future__ import annotations

import hashlib


def seed_of(*parts: object) -> int:
    """A 63-bit seed from what values print as, the same in every process and run (`hash` is
    neither): of names and texts.
    """
    return _digested("\0".join(map(str, parts)))


def derive(*parts: int) -> int:
    """A 63-bit seed from another and from what it is for: of integers alone."""
    return _digested(repr(parts))


def _digested(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
