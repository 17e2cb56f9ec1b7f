"""Seeds: numbers made from values, so that nothing that is drawn depends on order or process."""

from __future__ import annotations

import hashlib


def seed_of(*parts: object) -> int:
    """A seed from values, the same in every process and run (`hash` is neither)."""
    text = "\0".join(map(str, parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
