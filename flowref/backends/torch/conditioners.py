"""The conditioner of a coupling: its outputs in a call, and the coupling with altered outputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from flowref.backends.torch.arrays import array
from flowref.model import Coupling, Unsupported


def conditioner(obj: Any, coupling: Coupling | None) -> nn.Module:
    """Returns the module that computes a coupling's parameters; raises `Unsupported` if none is
    declared.
    """
    if coupling is None or not coupling.conditioner:
        raise Unsupported("its conditioner is not declared")
    module = obj
    for step in coupling.conditioner.split("."):
        module = getattr(module, step, None)
    if not isinstance(module, nn.Module):
        raise Unsupported(f"its {coupling.conditioner} is no module")
    return module


def outputs(module: nn.Module, run: Callable[[], Any]) -> Any:
    """The outputs ``(n, numbers)`` of a conditioner when it first ran in a call; raises
    `Unsupported` if it did not run.
    """
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
    """Alter the outputs of a conditioner permanently, by a hook.

    ``how``: "folded": the detached absolute value, a function that is not injective and has no
    derivative; "kept": adds ``size`` to the outputs for kept entries.
    """
    module.register_forward_hook(partial(altered_conditioner_output, coupling.kept, how, size))


def altered_conditioner_output(
    kept: Any, how: str, size: float, module: nn.Module, inputs: Any, out: Any
) -> Any:
    """Replaces the output ``out`` of a conditioner; see `bend`."""
    if isinstance(out, (tuple, list)):
        return tuple(
            altered_conditioner_output(kept, how, size, module, inputs, one) for one in out
        )
    if how == "folded":
        return out.detach().abs()
    flat = out.reshape(len(out), -1)
    if flat.shape[1] % len(kept):
        raise Unsupported(
            "its conditioner does not return the same number of parameters for every entry of an event"
        )
    mask = torch.tensor(kept, dtype=out.dtype).repeat(flat.shape[1] // len(kept))
    return (flat + size * mask).reshape(out.shape)
