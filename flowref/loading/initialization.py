"""Objects that are initialized by their first batch: found by calls in train mode."""

from __future__ import annotations

from typing import Any

from flowref.backends import Backend
from flowref.loading.size import called
from flowref.model import Dialect

INITIALIZED = "initialized by its first batch"


def made_ready(obj: Any, dialect: Dialect, backend: Backend, point: tuple[Any, Any]) -> bool:
    """Make the call in train mode that an object in eval mode asks for before any other; whether it
    did. The object is left in eval mode.
    """
    call = dialect.forward or dialect.log_prob
    if call is None or _runs(backend, obj, call, point):
        return False
    backend.set_mode(obj, True)
    _runs(backend, obj, call, point)
    backend.set_mode(obj, False)
    return _runs(backend, obj, call, point)


def initializes(
    obj: Any, dialect: Dialect, backend: Backend, point: tuple[Any, Any], back: bool = False
) -> bool:
    """Whether the first call of an object in train mode changes its parameters or buffers, and the
    second changes them no more. ``back``: the call of its inverse.
    """
    call = dialect.inverse if back else dialect.forward or dialect.log_prob
    if call is None or not callable(getattr(obj, "parameters", None)):
        return False
    backend.set_mode(obj, True)
    states = [_state(obj)]
    for factor in (1.0, 0.75):
        x, context = point
        if not _runs(backend, obj, call, (factor * x, context)):
            return False
        states.append(_state(obj))
        if _same(states[0], states[-1]):  # the first call changes nothing
            return False
    return _same(states[1], states[2])


def _state(obj: Any) -> list[Any]:
    # What lists its parameters need be no module.
    buffers = obj.buffers() if callable(getattr(obj, "buffers", None)) else ()
    return [tensor.detach().clone() for tensor in (*obj.parameters(), *buffers)]


def _same(some: list[Any], others: list[Any]) -> bool:
    if len(some) != len(others):
        return False
    pairs = zip(some, others, strict=True)
    return all(one.shape == other.shape and bool((one == other).all()) for one, other in pairs)


def _runs(backend: Backend, obj: Any, call: Any, point: tuple[Any, Any]) -> bool:
    try:
        called(backend, call, obj, *point)
    except Exception:  # which error is the object's affair
        return False
    return True
