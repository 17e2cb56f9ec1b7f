"""A map at given points, for Jacobian visitors: its value there, and its vector-Jacobian
product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from flowref.backends.torch.arrays import array
from flowref.backends.torch.call_cost import Measuring
from flowref.model import Array, Stage
from flowref.model.cost import BACKWARD

# The maximal number of rows of one backward pass; more are split.
PULLED = 256
# Up to so many cotangents are pulled back one after the other.
FEW = 66
# The factor of a second, larger batch, which separates the cost per row from that of parameters.
MORE = 3


class MapCall(NamedTuple):
    """A call of a map: a function of points and contexts, and the contexts."""

    function: Callable[..., Any]
    context: torch.Tensor | None = None

    def at(self, x: torch.Tensor, times: int = 1) -> torch.Tensor:
        """The value at ``x`` ``(n * times, *event)``, whose consecutive groups of ``times`` rows
        share a context.
        """
        context = self.context
        if context is not None:
            context = context[: len(x) // times].repeat_interleave(times, 0)
        value: torch.Tensor = self.function(x, context)[0]
        return value


def stage_of(asked: MapCall, x: torch.Tensor, most: int) -> Stage:
    """A map at points ``(n, *event)`` as a `Stage`; its graphs have at most ``most`` rows."""
    with torch.no_grad():
        y = asked.at(x)
    batch, event = len(x), tuple(x.shape[1:])
    together = max(1, min(PULLED, most) // max(1, batch))
    once: list[tuple[torch.Tensor, torch.Tensor]] = []

    def pull(cotangents: Array) -> Array:
        # A few cotangents use one call, so that noise rounds it once.
        few = cotangents.shape[1] <= FEW or together == 1
        if few and not once:
            once.append(graph(1))
        pieces = []
        for start in range(0, cotangents.shape[1], 1 if few else together):
            some = cotangents[:, start : start + (1 if few else together)]
            pieces.append(leaf_gradients(*(once[0] if few else graph(some.shape[1])), some))
        return np.concatenate(pieces, 1)

    def graph(times: int) -> tuple[torch.Tensor, torch.Tensor]:
        leaf = x.repeat_interleave(times, 0).requires_grad_(True)
        with torch.enable_grad():
            return asked.at(leaf, times), leaf

    def value(points: Array) -> Array:
        rows = torch.from_numpy(np.ascontiguousarray(points)).to(x.dtype)
        with torch.no_grad():
            return np.asarray(array(asked.at(rows.reshape(-1, *event)))).reshape(len(points), -1)

    def work() -> float:
        spent: list[float] = []
        for times in (1, MORE):
            with torch.no_grad(), Measuring() as measuring:
                asked.at(x.repeat_interleave(times, 0), times)
            spent.append(measuring.work)
        row = max(0.0, spent[1] - spent[0]) / (MORE - 1)
        return (1 + BACKWARD) * (row + max(0.0, spent[0] - row) / together) / batch

    flat, there = (np.asarray(array(one)).reshape(batch, -1) for one in (x, y))
    return Stage(event, flat, there, pull, value, work)


def leaf_gradients(value: torch.Tensor, leaf: torch.Tensor, cotangents: Array) -> Array:
    """Gradients ``(batch, probes, inputs)`` of the leaf for cotangents ``(batch, probes,
    outputs)`` of a value; the leaf has one row per probe.
    """
    gradient = None
    if value.requires_grad:
        (gradient,) = torch.autograd.grad(
            value, leaf, tensor_like(cotangents, value), retain_graph=True, allow_unused=True
        )
    rows = array(torch.zeros_like(leaf) if gradient is None else gradient)
    return np.asarray(rows.reshape(*cotangents.shape[:2], -1))


def tensor_like(values: Array, like: torch.Tensor) -> torch.Tensor:
    """Numbers in the shape and dtype of a tensor."""
    return torch.from_numpy(np.ascontiguousarray(values)).to(like.dtype).reshape(like.shape)
