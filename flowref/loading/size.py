"""Large events, whose calls may be expensive, such as an inverse with one pass per entry."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from flowref.backends import Backend
from flowref.model import Shape

T = TypeVar("T")
# Entries from which on calls are limited to the necessary.
MANY = 256


def is_large(event: Shape) -> bool:
    """Whether an event has at least `MANY` entries."""
    return math.prod(event) >= MANY


def call_with_cached_weights(backend: Backend, call: Callable[..., T], obj: Any, *given: Any) -> T:
    """The result of a call; for large events, results that depend on weights alone are cached in it."""
    run = partial(call, obj, *given)
    return backend.sparing(run, of=obj) if is_large(tuple(given[0].shape[1:])) else run()
