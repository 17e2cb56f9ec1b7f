"""Results of calls that laws share: the same call of the same object at the same inputs, under the
same noise, is made once.

Without noise a call is a function of its inputs, since each is made on a fresh copy under a fixed
random state. Under noise it is one of the inputs and of the seed of the run, so that laws that are
measured on the same points share their noisy calls as well.
"""

from __future__ import annotations

import hashlib
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

# Bytes of results that a process keeps, what an entry takes besides its arrays, and the largest
# share of one entry.
LIMIT, OVERHEAD, LARGEST = 2**26, 512, 0.125


class ResultCache:
    """Results by what they depend on, up to so many bytes; those that were not asked for longest go
    first.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit, self.size = limit, 0
        self.entries: OrderedDict[tuple[Any, ...], Any] = OrderedDict()

    def get(self, key: tuple[Any, ...], make: Callable[[], Any], anew: bool = False) -> Any:
        """What is kept under a key, or what ``make`` gives, in any case where it is made ``anew``;
        arrays in memory of their own.
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
        """Forget all of them."""
        self.entries.clear()
        self.size = 0

    def holds(self, result: Any) -> bool:
        """Whether a result is small enough to be kept."""
        return result_bytes(result) <= LARGEST * self.limit


KEPT = ResultCache()


def copied(value: Any) -> Any:
    """A result with its arrays in memory of their own."""
    if isinstance(value, tuple):
        parts = map(copied, value)
        return value._make(parts) if hasattr(value, "_make") else tuple(parts)
    return value.copy() if isinstance(value, np.ndarray) else value


def result_bytes(value: Any) -> int:
    """Bytes that a kept result takes."""
    parts = value if isinstance(value, tuple) else (value,)
    return OVERHEAD + sum(
        part.nbytes if isinstance(part, np.ndarray) else sys.getsizeof(part) for part in parts
    )


def call_digest(what: str, *inputs: Any) -> bytes:
    """What tells a call and its inputs from others."""
    digest = hashlib.blake2b(what.encode(), digest_size=16)
    for value in inputs:
        if isinstance(value, np.ndarray):
            digest.update(f"|{value.dtype.str}{value.shape}".encode())
            digest.update(np.ascontiguousarray(value).data)
        else:
            digest.update(f"|{value!r}".encode())
    return digest.digest()
