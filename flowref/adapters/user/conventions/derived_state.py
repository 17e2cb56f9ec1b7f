"""Methods that recompute state derived from parameters, such as the inverse of a matrix: ``sync()`` after
each training step. Found by name, and verified by calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.names import SYNCS

# Displacement of parameters, and the tolerance for rounding of derived state.
MOVED, SAME = 0.05, 1e-4


def synced(obj: Any, method: str) -> None:
    """Let an object, or its parts, recompute state derived from parameters."""
    for part in owners(obj, method):
        getattr(part, method)()


def owners(obj: Any, method: str) -> list[Any]:
    """The object and its parts that define a method of this name without required arguments."""
    parts = list(obj.modules()) if callable(getattr(obj, "modules", None)) else []
    return [
        part
        for part in parts
        if signatures.defines_method(part, method) and not signatures.required(part, method)
    ]


def syncing(obj: Any) -> str:
    """The method that recomputes derived state, or "": on a new object it changes nothing; after parameters
    moved it changes other tensors, once. ``obj``: a copy, which is moved.
    """
    for method in SYNCS:
        if not owners(obj, method):
            continue
        try:
            if _follows(obj, method):
                return method
        except Exception:  # any exception means no
            continue
    return ""


def _follows(obj: Any, method: str) -> bool:
    import torch

    with torch.no_grad():
        built = _cloned_tensors(obj)
        synced(obj, method)
        if not _close_states(built, _cloned_tensors(obj), SAME):
            return False
        for index, parameter in enumerate(_trained(obj)):
            steps = torch.arange(parameter.numel(), dtype=parameter.dtype).reshape(parameter.shape)
            parameter.add_(MOVED * torch.cos(index + 2.0 * steps))
        trained, before = [one.clone() for one in _trained(obj)], _cloned_tensors(obj)
        synced(obj, method)
        after = _cloned_tensors(obj)
        synced(obj, method)
    kept = _close_states(trained, _trained(obj), 0.0)
    return (
        kept
        and not _close_states(before, after, SAME)
        and _close_states(after, _cloned_tensors(obj), 0.0)
    )


def _trained(obj: Any) -> list[Any]:
    return [one for one in obj.parameters() if one.requires_grad]


def _cloned_tensors(obj: Any) -> list[Any]:
    return [tensor.detach().clone() for tensor in _module_tensors(obj)]


def _module_tensors(obj: Any) -> Iterator[Any]:
    """Parameters, buffers, and other tensors of modules."""
    yield from obj.parameters()
    yield from obj.buffers()
    for part in obj.modules():
        for value in vars(part).values():
            if hasattr(value, "detach") and hasattr(value, "numel"):
                yield value


def _close_states(some: list[Any], others: list[Any], tolerance: float) -> bool:
    return len(some) == len(others) and all(
        one.shape == other.shape
        and bool(((one - other).abs() <= tolerance * (1 + other.abs())).all())
        for one, other in zip(some, others, strict=True)
    )
