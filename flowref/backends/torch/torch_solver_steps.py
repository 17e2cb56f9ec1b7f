"""Solver settings of a live torch object: numbers of steps, step sizes, tolerances."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref.backends.knobs import finer
from flowref.backends.torch.reach import reached


def refine(obj: Any, times: int) -> tuple[str, ...]:
    """Refines the solver settings of an object: ``times`` as many steps, each so much shorter, and
    a tolerance that a fourth-order method then meets. Returns the names of the changed
    settings.
    """
    turned = []
    for path, item in list(reached(obj)):
        for name, value in named_values(item).items():
            turn = finer(name, value, times)
            if turn is None:
                continue
            if isinstance(item, dict):
                item[name] = turn
            else:
                object.__setattr__(item, name, turn)
            turned.append(f"{path}.{name}".lstrip("."))
    return tuple(turned)


def named_values(item: Any) -> dict[str, Any]:
    """The named values of an item; for a module, its own attributes and those of its classes."""
    if isinstance(item, dict):
        return {name: value for name, value in item.items() if isinstance(name, str)}
    if isinstance(item, torch.Tensor) or not hasattr(item, "__dict__"):
        return {}
    found: dict[str, Any] = {}
    if isinstance(item, nn.Module):
        for base in reversed(type(item).__mro__):
            if base.__module__.partition(".")[0] != "torch":
                found |= vars(base)
    found |= vars(item)
    return found
