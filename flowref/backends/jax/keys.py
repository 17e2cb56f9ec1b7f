"""The random key of a call. JAX has no global generator: functions of a dialect that draw ask here
for the key, which is a traced argument where a call is compiled.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

_KEYS: list[Any] = []


def key() -> Any:
    """The key of the call that is being made: the same however often it is asked for."""
    import jax

    held = _KEYS[-1] if _KEYS else 0
    return jax.random.key(held) if isinstance(held, int) else held


@contextlib.contextmanager
def drawing(key: Any) -> Iterator[None]:
    """Make calls with a key, or with the key of a seed."""
    _KEYS.append(key % 2**32 if isinstance(key, int) else key)
    try:
        yield
    finally:
        _KEYS.pop()
