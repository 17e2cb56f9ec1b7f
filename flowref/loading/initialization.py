"""Objects initialized by their first batch, found by calls in train mode."""

from __future__ import annotations

from typing import Any

from flowref.backends import Backend
from flowref.loading.instance import Instance
from flowref.loading.size import call_with_cached_weights
from flowref.model import Dialect

INITIALIZED = "initialized by its first batch"
# Rows from which on one may be left out of a batch.
FEWEST = 2


def made_ready(obj: Any, dialect: Dialect, backend: Backend, point: tuple[Any, Any]) -> bool:
    """Make the call in train mode that an object demands before eval mode or its inverse, and return
    whether it was needed. Leaves the object in eval mode.
    """
    call = dialect.forward or dialect.log_prob
    if call is None:
        return False
    ready = _runs(backend, obj, call, point)
    if ready:
        if dialect.inverse is None or _inverse_returns(backend, obj, dialect, point):
            return False
        other = backend.duplicate(obj)
        _call_in_train_mode(backend, other, call, point)
        if not _inverse_returns(backend, other, dialect, point):
            return False  # not a matter of initialization
    _call_in_train_mode(backend, obj, call, point)
    return not ready and _runs(backend, obj, call, point)


def _call_in_train_mode(backend: Backend, obj: Any, call: Any, point: tuple[Any, Any]) -> None:
    """One call in train mode, unless it raises; eval mode afterwards."""
    backend.set_mode(obj, True)
    _runs(backend, obj, call, point)
    backend.set_mode(obj, False)


def _inverse_returns(backend: Backend, obj: Any, dialect: Dialect, point: tuple[Any, Any]) -> bool:
    assert dialect.forward is not None and dialect.inverse is not None
    try:
        z = call_with_cached_weights(backend, dialect.forward, obj, *point)[0]
        call_with_cached_weights(backend, dialect.inverse, obj, z, point[1])
    except Exception:  # any class of exception
        return False
    return True


def initializes(
    instance: Instance, dialect: Dialect, point: tuple[Any, Any], back: bool = False
) -> bool:
    """Whether the first call in train mode changes parameters or buffers, depending on the batch, and the
    second does not. ``back``: call the inverse.
    """
    call = dialect.inverse if back else dialect.forward or dialect.log_prob
    obj = instance.copy()
    if call is None or not callable(getattr(obj, "parameters", None)):
        return False
    others = (0.75 * point[0], point[1])
    before = _cloned_parameters(obj)
    first = _after(instance, obj, call, point)
    if first is None or _equal_states(before, first):  # the first call changes nothing
        return False
    second = _after(instance, obj, call, others)
    if second is None or not _equal_states(first, second):
        return False
    # A state updated from the weights alone, such as a power iteration, does not depend on the
    # batch.
    x, context = others
    fewer = x[1:], None if context is None else context[1:]
    another = _after(instance, instance.copy(), call, fewer) if len(x) > FEWEST else None
    another = another or _after(instance, instance.copy(), call, others)
    return another is None or not _equal_states(first, another)


def _after(instance: Instance, obj: Any, call: Any, point: tuple[Any, Any]) -> list[Any] | None:
    """The state after a call in train mode under a fixed seed; None if it raises."""
    instance.backend.set_mode(obj, True)
    with instance.backend.sandbox(0, instance.dtype):
        return _cloned_parameters(obj) if _runs(instance.backend, obj, call, point) else None


def _cloned_parameters(obj: Any) -> list[Any]:
    # An object that lists its parameters is not always a module.
    buffers = obj.buffers() if callable(getattr(obj, "buffers", None)) else ()
    return [tensor.detach().clone() for tensor in (*obj.parameters(), *buffers)]


def _equal_states(some: list[Any], others: list[Any]) -> bool:
    if len(some) != len(others):
        return False
    pairs = zip(some, others, strict=True)
    return all(one.shape == other.shape and bool((one == other).all()) for one, other in pairs)


def _runs(backend: Backend, obj: Any, call: Any, point: tuple[Any, Any]) -> bool:
    try:
        call_with_cached_weights(backend, call, obj, *point)
    except Exception:  # any class of exception
        return False
    return True
