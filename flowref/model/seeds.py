"""Seeds derived from values, so that draws depend on neither order nor process. Both notations of the
values are kept, since published verdicts depend on each.
"""

from __future__ import annotations

import hashlib


def seed_of(*parts: object) -> int:
    """A 63-bit seed from printed names and texts, equal in every process and run (unlike `hash`)."""
    return _digested("\0".join(map(str, parts)))


def derive(*parts: int) -> int:
    """A 63-bit seed from integers: another seed, and numbers for its purpose."""
    return _digested(repr(parts))


def _digested(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
