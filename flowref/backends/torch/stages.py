"""A map at points as a visitor sees it: what it gives there, and what cotangents of that pull back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from flowref.backends.torch.arrays import array
from flowref.backends.torch.measuring import Measuring
from flowref.model import Array, Stage
from flowref.model.cost import BACKWARD

# Rows of one backward pass, at most; more are pulled back in chunks.
PULLED = 256
# Up to so many cotangents are pulled back one after the other.
FEW = 66
# So many times a batch is measured as well, to tell what rows take from what parameters take.
MORE = 3


class Asked(NamedTuple):
    """A call of a map: a function of a tensor and further arguments, and these."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = {}

    def at(self, x: torch.Tensor, times: int = 1) -> torch.Tensor:
        """The value at other points, of which each row stands for ``times`` that follow each other."""
        batch = len(x) // times
        args = [repeated(value, batch, times) for value in self.args]
        keywords = {name: repeated(value, batch, times) for name, value in self.keywords.items()}
        value: torch.Tensor = self.function(x, *args, **keywords)[0]
        return value

    def first(self, rows: int, batch: int) -> Asked:
        """The call of the first rows of a batch alone."""
        args = tuple(first_rows(value, rows, batch) for value in self.args)
        keywords = {name: first_rows(one, rows, batch) for name, one in self.keywords.items()}
        return Asked(self.function, args, keywords)


def first_rows(value: Any, rows: int, batch: int) -> Any:
    """A further argument for the first rows of a batch."""
    whole = isinstance(value, torch.Tensor) and value.dim() and len(value) == batch
    return value[:rows] if whole else value


def repeated(value: Any, batch: int, times: int) -> Any:
    """A further argument for rows that stand several times over, cut off from its graph."""
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach()
    if times == 1 or not value.dim() or len(value) != batch:
        return value
    return value.repeat_interleave(times, 0)


class Graphs:
    """The graph that was made last of a map at points, of whichever stage: what is pulled back next is
    often pulled back through the same.
    """

    owner: object = None
    graph: tuple[torch.Tensor, torch.Tensor] | None = None

    def forget(self) -> None:
        """Let go of it: its owner refers to this, so that it would be held until cycles are sought."""
        self.owner = self.graph = None

    def of(
        self, owner: object, make: Callable[[], tuple[torch.Tensor, torch.Tensor]]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The graph of an owner, made if it is not there."""
        if self.graph is None or self.owner is not owner:
            self.owner = self.graph = None
            self.owner, self.graph = owner, make()
        return self.graph


def stage_of(
    name: str,
    asked: Asked,
    x: torch.Tensor,
    most: int,
    y: torch.Tensor | None = None,
    graphs: Graphs | None = None,
) -> Stage:
    """A map at points, where it gives ``y`` if that is known; a graph has ``most`` rows."""
    if y is None:
        with torch.no_grad():
            y = asked.at(x.detach())
    # What was called to know it has a graph already, of the points themselves.
    made = y.requires_grad and x.requires_grad and x.is_leaf
    ready = (x, y) if made else None
    batch, event = len(x), tuple(x.shape[1:])
    together = max(1, min(PULLED, most) // max(1, batch))
    last = graphs or Graphs()

    def pull(cotangents: Array) -> Array:
        # A few are pulled back from one and the same call, however noise has rounded it.
        if cotangents.shape[1] <= FEW or together == 1:
            leaf, out = last.of(pull, lambda: ready or graph(1))
            return np.concatenate(
                [
                    pulled_back(out, leaf, cotangents[:, probe : probe + 1])
                    for probe in range(cotangents.shape[1])
                ],
                axis=1,
            )
        pieces = []
        for start in range(0, cotangents.shape[1], together):
            some = cotangents[:, start : start + together]
            leaf, out = graph(some.shape[1])
            pieces.append(pulled_back(out, leaf, some))
        return np.concatenate(pieces, 1)

    def graph(times: int) -> tuple[torch.Tensor, torch.Tensor]:
        leaf = x.detach().repeat_interleave(times, 0).requires_grad_(True)
        with torch.enable_grad():
            return leaf, asked.at(leaf, times)

    def value(points: Array) -> Array:
        rows = torch.from_numpy(np.ascontiguousarray(points)).to(x.dtype)
        # Points that are fewer are the first of them, with what else is given for these.
        own = asked if len(points) >= batch else asked.first(len(points), batch)
        with torch.no_grad():
            found = own.at(rows.reshape(-1, *event), max(1, len(points) // batch))
            return np.asarray(array(found)).reshape(len(points), -1)

    def work() -> float:
        spent: list[float] = []
        for times in (1, MORE):
            with torch.no_grad(), Measuring() as measuring:
                asked.at(x.detach().repeat_interleave(times, 0), times)
            spent.append(measuring.work)
        row = max(0.0, spent[1] - spent[0]) / (MORE - 1)
        return (1 + BACKWARD) * (row + max(0.0, spent[0] - row) / together) / batch

    flat = np.asarray(array(x)).reshape(batch, -1)
    there = np.asarray(array(y)).reshape(batch, -1)
    return Stage(name, event, flat, there, pull, value, work=work)


def pulled_back(value: torch.Tensor, leaf: torch.Tensor, cotangents: Array) -> Array:
    """What cotangents of a value ``(batch, probes, outputs)`` give for the leaf that it hangs on,
    whose rows stand as many times over.
    """
    gradient = None
    if graphed(value):
        (gradient,) = torch.autograd.grad(
            value, leaf, tensor_like(cotangents, value), retain_graph=True, allow_unused=True
        )
    rows = np.asarray(array(zeros_for(gradient, leaf)))
    return rows.reshape(*cotangents.shape[:2], -1)


def graphed(value: torch.Tensor) -> bool:
    """Whether a value can be pulled back."""
    return bool(value.requires_grad)


def tensor_like(values: Array, like: torch.Tensor) -> torch.Tensor:
    """Numbers in the shape and the dtype of a tensor."""
    return torch.from_numpy(np.ascontiguousarray(values)).to(like.dtype).reshape(like.shape)


def zeros_for(gradient: torch.Tensor | None, leaf: torch.Tensor) -> torch.Tensor:
    """A gradient, which is zero where nothing was recorded."""
    return torch.zeros_like(leaf) if gradient is None else gradient
