"""A cache of call results that laws share: each call of one object, with the same inputs and the
same noise, is made once.

Without noise the result depends on the inputs only, since each call is made on a fresh copy under a
fixed random state. Under noise it depends on the inputs and the seed of the run, so laws that
measure the same points share their noisy calls too.
"""

from __future__ import annotations

import hashlib
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

# The capacity in bytes of a process, the overhead of an entry, and the largest share of one entry.
LIMIT, OVERHEAD, LARGEST = 2**26, 512, 0.125


class ResultCache:
    """A least-recently-used cache, limited in bytes."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit, self.size = limit, 0
        self.entries: OrderedDict[tuple[Any, ...], Any] = OrderedDict()

    def get(self, key: tuple[Any, ...], make: Callable[[], Any], anew: bool = False) -> Any:
        """Returns the cached result of a key, or computes it by ``make``, always if ``anew``. The
        arrays returned are copies.
        """
        if key in self.entries and not anew:
            self.entries.move_to_end(key)
            return copied(self.entries[key])
        made = make()
        if self.holds(made) and key not in self.entries:
            self.entries[key] = copied(made)
            self.size += result_bytes(made)
            while self.size > self.limit:
                self.size -= result_bytes(self.entries.popitem(last=False)[1])
        return made

    def clear(self) -> None:
        """Remove all entries."""
        self.entries.clear()
        self.size = 0

    def holds(self, result: Any) -> bool:
        """Whether a result is small enough to be cached."""
        return result_bytes(result) <= LARGEST * self.limit


KEPT = ResultCache()


def copied(value: Any) -> Any:
    """A copy of a result, and of the arrays in it."""
    if isinstance(value, tuple):
        parts = map(copied, value)
        return value._make(parts) if hasattr(value, "_make") else tuple(parts)
    return value.copy() if isinstance(value, np.ndarray) else value


def result_bytes(value: Any) -> int:
    """The size of a cached result in bytes, with overhead."""
    parts = value if isinstance(value, tuple) else (value,)
    return OVERHEAD + sum(
        part.nbytes if isinstance(part, np.ndarray) else sys.getsizeof(part) for part in parts
    )


def call_digest(what: str, *inputs: Any) -> bytes:
    """A 128-bit digest of a call and its inputs: dtype, shape and contents of arrays, the repr of
    others.
    """
    digest = hashlib.blake2b(what.encode(), digest_size=16)
    for value in inputs:
        if isinstance(value, np.ndarray):
            digest.update(f"|{value.dtype.str}{value.shape}".encode())
            digest.update(np.ascontiguousarray(value).data)
        else:
            digest.update(f"|{value!r}".encode())
    return digest.digest()
