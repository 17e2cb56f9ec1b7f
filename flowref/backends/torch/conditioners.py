"""The conditioner of a coupling: what it gives in one call, and what becomes of the coupling when
it gives something else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from flowref.backends.torch.arrays import array
from flowref.model import Coupling, Unsupported


def conditioner(obj: Any, coupling: Coupling | None) -> nn.Module:
    """The module that gives a coupling's parameters."""
    if coupling is None or not coupling.conditioner:
        raise Unsupported("its conditioner is not declared")
    module = obj
    for step in coupling.conditioner.split("."):
        module = getattr(module, step, None)
    if not isinstance(module, nn.Module):
        raise Unsupported(f"its {coupling.conditioner} is no module")
    return module


def outputs(module: nn.Module, run: Callable[[], Any]) -> Any:
    """What a conditioner gave when it first ran in a call, one row per point."""
    seen: list[Any] = []

    def note(_: Any, inputs: Any, out: Any) -> None:
        rows = out if isinstance(out, (tuple, list)) else [out]
        seen.append(torch.cat([row.detach().reshape(len(row), -1) for row in rows], 1))

    handle = module.register_forward_hook(note)
    try:
        run()
    finally:
        handle.remove()
    if not seen:
        raise Unsupported("its conditioner is not called as a module")
    return array(seen[0])


def bend(module: nn.Module, coupling: Coupling, how: str, size: float) -> None:
    """Change what a conditioner gives, for good.

    ``how``: "folded": its absolute value with no graph, a function that is not injective and has no
    derivative; "kept": the same as before, plus ``size`` for entries that are kept.
    """
    module.register_forward_hook(partial(altered_conditioner_output, coupling.kept, how, size))


def altered_conditioner_output(
    kept: Any, how: str, size: float, module: nn.Module, inputs: Any, out: Any
) -> Any:
    """What a conditioner gives instead of ``out``."""
    if isinstance(out, (tuple, list)):
        return tuple(
            altered_conditioner_output(kept, how, size, module, inputs, one) for one in out
        )
    if how == "folded":
        return out.detach().abs()
    flat = out.reshape(len(out), -1)
    if flat.shape[1] % len(kept):
        raise Unsupported(
            "its conditioner does not give as many numbers for every entry of an event"
        )
    mask = torch.tensor(kept, dtype=out.dtype).repeat(flat.shape[1] // len(kept))
    return (flat + size * mask).reshape(out.shape)
