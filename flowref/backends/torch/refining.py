"""The knobs of a solver: attributes that say how many steps it takes, how long these are, or how
accurate it is to be.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref.backends.torch.reach import reached

# Names of knobs, or their last words: numbers of steps, lengths of steps, and tolerances.
COUNTS = ("steps", "nsteps", "timesteps", "nt")
LENGTHS = ("step_size", "stepsize", "dt")
TOLERANCES = ("rtol", "atol", "tol", "tolerance")
# More steps than that are no knob; nor is a larger tolerance.
MOST, LARGEST, SMALLEST = 4096, 0.5, 1e-13


def refine(obj: Any, times: int) -> tuple[str, ...]:
    """Turn the knobs of a live object: so many times the steps, each so much shorter, and a tolerance
    that a method of fourth order then meets. Returns the names that were turned.
    """
    turned = []
    for path, item in list(reached(obj)):
        for name, value in _values(item).items():
            finer = _finer(name, value, times)
            if finer is None:
                continue
            if isinstance(item, dict):
                item[name] = finer
            else:
                object.__setattr__(item, name, finer)
            turned.append(f"{path}.{name}".lstrip("."))
    return tuple(turned)


def _values(item: Any) -> dict[str, Any]:
    """What an item has by name: of a module its own attributes and those of its classes."""
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


def _finer(name: str, value: Any, times: int) -> Any:
    """The value of a knob that is turned; None for what is none."""
    name = name.lower().strip("_")
    if _ends(name, COUNTS) and type(value) is int and 0 < value <= MOST:
        return value * times
    if _ends(name, LENGTHS) and type(value) is float and value > 0:
        return value / times
    if _ends(name, TOLERANCES) and type(value) is float and 0 < value <= LARGEST:
        return max(value / times**4, min(value, SMALLEST))
    return None


def _ends(name: str, words: tuple[str, ...]) -> bool:
    return any(name == word or name.endswith(f"_{word}") for word in words)
