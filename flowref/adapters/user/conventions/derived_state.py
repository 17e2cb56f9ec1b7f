"""Methods that compute again what is kept of parameters, such as the inverse of a matrix: ``sync()``
after each step of training. Found by their name, and believed by calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.names import SYNCS

# How far parameters are moved to see what follows them, and what is rounding of what was kept.
MOVED, SAME = 0.05, 1e-4


def synced(obj: Any, method: str) -> None:
    """Let an object, or what it is made of, compute again what it keeps of its parameters."""
    for part in owners(obj, method):
        getattr(part, method)()


def owners(obj: Any, method: str) -> list[Any]:
    """The object and what it is made of, as far as these have a method of that name of their own
    that asks for nothing.
    """
    parts = list(obj.modules()) if callable(getattr(obj, "modules", None)) else []
    return [
        part
        for part in parts
        if signatures.defines_method(part, method) and not signatures.required(part, method)
    ]


def syncing(obj: Any) -> str:
    """The method by which an object follows its parameters, or nothing: it changes nothing of an
    object as it was built; after parameters were moved it changes what is no parameter, once.
    ``obj``: a copy, which is moved.
    """
    for method in SYNCS:
        if not owners(obj, method):
            continue
        try:
            if _follows(obj, method):
                return method
        except Exception:  # which error is no affair of the map
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
    """Parameters, buffers, and tensors that modules keep besides."""
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
