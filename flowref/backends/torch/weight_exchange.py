"""Sharing weights between two modules: floating parameters, then buffers."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from torch import nn
from torch.nn.utils import stateless

from flowref.model import TargetError


def correspondence(obj: Any, other: Any) -> dict[str, str]:
    """See `Backend.correspondence`."""
    ours, theirs = (
        {name: tuple(one.shape) for name, one in _floating_tensors(module).items()}
        for module in (obj, other)
    )
    if ours == theirs:
        return {name: name for name in theirs}
    if list(ours.values()) == list(theirs.values()):
        return dict(zip(theirs, ours, strict=True))
    first, second = (
        ", ".join(f"{name} {shape}" for name, shape in held.items()) or "none"
        for held in (ours, theirs)
    )
    raise TargetError(
        f"their weights do not correspond: one holds {first}; the other {second}; expected the same shapes under the same "
        "names, or in the same order"
    )


def lent(obj: Any, other: Any, names: Mapping[str, str]) -> contextlib.AbstractContextManager[None]:
    """See `Backend.lent`."""
    if not names:
        return contextlib.nullcontext()
    held = _floating_tensors(obj)
    given = {theirs: held[ours] for theirs, ours in names.items()}
    context: contextlib.AbstractContextManager[None] = stateless._reparametrize_module(other, given)
    return context


def _floating_tensors(obj: Any) -> dict[str, Any]:
    if not isinstance(obj, nn.Module):
        return {}
    held = {**dict(obj.named_parameters()), **dict(obj.named_buffers())}
    return {name: one for name, one in held.items() if one.is_floating_point()}
