"""Calls with inflated normal noise, for importance sampling: rare draws, which dominate the mean
of an exponential, become frequent, with smaller weights.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from flowref.backends.process import standing_in
from flowref.backends.torch.dispatch import Dispatch
from flowref.backends.torch.live import Live
from flowref.model import Array

# Operators that draw standard normal numbers, and those whose second argument is the deviation,
# which is optional.
STANDARD = ("randn", "randn_like")
SCALED = ("normal", "normal_", "normal_functional")


class Widening(Dispatch):
    """Inflates normal noise by a factor, and records the log-ratio of densities of what is
    drawn.
    """

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor
        self.noted: list[Array] = []

    def operation(self, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Inflates the draws of normal numbers."""
        name = func.overloadpacket.__name__
        if name in STANDARD:
            out = func(*args, **named).mul_(self.factor)
            self._note(out / self.factor)
            return out
        if name not in SCALED or torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **named)
        mean, std = _mean_and_deviation(func, args, named)
        wide = _with_deviation(func, args, named, std * self.factor)
        out = func(*wide[0], **wide[1])
        self._note((out - mean) / (std * self.factor))
        return out

    def _note(self, e: torch.Tensor) -> None:
        """Records the log-ratio of densities, entry by entry, for standardized draws ``e``."""
        e = e.detach().double()
        ratio = 0.5 * (1 - self.factor**2) * e**2 + math.log(self.factor)
        self.noted.append(np.asarray(ratio.cpu().numpy()))

    def log_weights(self, rows: int) -> Array | None:
        """The log importance weight ``(rows,)`` of each row; None if draws cannot be assigned to
        rows, or there are none.
        """
        total, found = np.zeros(rows), False
        for ratio in self.noted:
            axes = [axis for axis in (0, 1) if ratio.ndim > axis and ratio.shape[axis] == rows]
            if len(axes) != 1:
                return None
            total += np.moveaxis(ratio, axes[0], 0).reshape(rows, -1).sum(1)
            found = True
        return total if found else None


def _mean_and_deviation(func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any]:
    first = 1 if func.overloadpacket.__name__ != "normal" else 0
    values = list(args[first : first + 2])
    mean = values[0] if values else named.get("mean", 0.0)
    std = values[1] if len(values) > 1 else named.get("std", 1.0)
    return mean, std


def _with_deviation(
    func: Any, args: tuple[Any, ...], named: dict[str, Any], std: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    at = 2 if func.overloadpacket.__name__ != "normal" else 1
    if len(args) > at:
        return (*args[:at], std, *args[at + 1 :]), named
    return args, {**named, "std": std}


@contextlib.contextmanager
def wider_noise(live: Live, factor: float) -> Iterator[Widening]:
    """Calls inside have normal noise inflated by a factor; their results are not cached."""
    widening = Widening(factor)
    with standing_in(live, widening=widening):
        yield widening
