"""Events of which a call may be dear, as of an inverse that takes a pass for each entry."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from flowref.backends import Backend
from flowref.model import Shape

T = TypeVar("T")
# Entries from which on calls are asked for no more than is needed.
MANY = 256


def is_large(event: Shape) -> bool:
    """Whether an event has many entries."""
    return math.prod(event) >= MANY


def call_with_cached_weights(backend: Backend, call: Callable[..., T], obj: Any, *given: Any) -> T:
    """What a call of an object gives; of many entries what comes of its weights alone is computed once."""
    run = partial(call, obj, *given)
    return backend.sparing(run, of=obj) if is_large(tuple(given[0].shape[1:])) else run()
