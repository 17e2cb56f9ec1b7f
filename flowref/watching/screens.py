"""Measures on a few rows that take about a step of training. They only raise suspicions, which a
law judges.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from flowref import loading
from flowref.loading.ownership import embedded
from flowref.model import FlowrefError

# The error, in units of rounding, that is suspicious, and the largest event whose Jacobian is
# built.
UNITS, LARGEST = 1e3, 64
# The round-trip error, relative to the row, that is reported even if it is due to rounding.
LOST = 0.05


@dataclass(frozen=True)
class Suspicion:
    """An error that rounding hardly explains. ``laws``: the laws that judge it; ``error``: its
    size; ``words``: a format string that describes it.
    """

    laws: tuple[str, ...]
    error: float
    words: str = ""


class Screens:
    """A copy of a model and the calls that flowref recognizes; raises `FlowrefError` if there are
    none.
    """

    def __init__(self, copy: Any, x: torch.Tensor, context: torch.Tensor | None) -> None:
        self.target = _snapshot_target(copy, x)
        recipe = loading.recipe_of(self.target)
        self.dialect, self.facts = recipe.dialect, recipe.facts
        self.place = _file_and_line(recipe.recognized.path, recipe.recognized.line)
        there, back = self.dialect.forward, self.dialect.inverse
        self._swapped = self.dialect.normalizing == "inverse"
        self._there, self._back = (back, there) if self._swapped else (there, back)
        self.twin = copy.eval()
        self._called = embedded(self.twin)
        self._tensors = _tensors(self.twin)

    @property
    def maps(self) -> bool:
        """Whether the model has a map of the data."""
        return self._there is not None

    def refresh(self, model: Any) -> None:
        """Copy the tensors of a model of the same layout."""
        now = _tensors(model)
        with torch.no_grad():
            for name, tensor in self._tensors.items():
                tensor.copy_(now[name])

    def rows(
        self, given: Iterable[torch.Tensor], count: int
    ) -> tuple[torch.Tensor, torch.Tensor | None] | None:
        """Returns the first rows of the points and contexts of a call, ``(count, *event)`` and
        ``(count, *context)`` or None; None if no tensor has the event shape.
        """
        event = self.facts.event_shape
        points = [one for one in given if tuple(one.shape[1:]) == tuple(event) and one.ndim]
        if not points:
            return None
        x, shape = points[0], self.facts.context_shape
        if shape is None:
            return x[:count].detach(), None
        contexts = [one for one in given if one is not x and tuple(one.shape) == (len(x), *shape)]
        return (x[:count].detach(), contexts[0][:count].detach()) if contexts else None

    def round_trip(self, x: torch.Tensor, context: torch.Tensor | None) -> list[Suspicion]:
        """Suspects the inverse if the round trip of ``x`` ``(n, *event)`` has an error beyond
        rounding.
        """
        if self._there is None or self._back is None:
            return []
        with torch.no_grad():
            back = self._back(self._called, self._there(self._called, x, context)[0], context)[0]
            error = _relative(back, x)
        if error <= UNITS * torch.finfo(x.dtype).eps:
            return []
        name = "map/inverse[latents]" if self._swapped else "map/inverse"
        return [Suspicion((name,), error, "the round trip is off by {:.3g} of the row in {}")]

    def log_det(self, x: torch.Tensor, context: torch.Tensor | None) -> list[Suspicion]:
        """Compares the log-det of the first row of ``x`` ``(n, *event)`` with that of its Jacobian
        by autodiff, and its results in this batch with those in a batch of copies.
        """
        size = math.prod(x.shape[1:])
        if self._there is None or size > LARGEST:
            return []
        copies = x[:1].expand(size, *x.shape[1:]).clone().requires_grad_()
        contexts = None if context is None else context[:1].expand(size, *context.shape[1:])
        with torch.enable_grad():
            z, ladj = self._there(self._called, copies, contexts)
            if z.numel() != size * size:
                return []
            seeds = torch.eye(size, dtype=z.dtype, device=z.device).reshape(z.shape)
            (jacobian,) = torch.autograd.grad(z, copies, seeds)
        found = []
        unit = UNITS * torch.finfo(x.dtype).eps
        if isinstance(ladj, torch.Tensor) and ladj.numel() == size:
            expected = float(torch.linalg.slogdet(jacobian.reshape(size, size).double().cpu())[1])
            reported = float(ladj.detach().reshape(-1)[0])
            # If copies have different log-dets, these are estimates, and one draw is not
            # comparable.
            spread = float(ladj.detach().max() - ladj.detach().min())
            error = 0.0 if spread > unit * max(1.0, abs(reported)) else abs(expected - reported)
            if math.isfinite(error) and error > unit * size * max(1.0, abs(expected)):
                found.append(
                    Suspicion(("map/log-det[inverse]" if self._swapped else "map/log-det",), error)
                )
        with torch.no_grad():
            among = self._there(self._called, x, context)[0]
        if (error := _relative(z[:1].detach(), among[:1])) > unit:
            found.append(Suspicion(("same/rows",), error))
        return found


def _relative(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest difference of two tensors row by row, relative to the row or 1; 0 if it is not
    finite.
    """
    one, other = one.reshape(len(one), -1), other.reshape(len(other), -1)
    if one.shape != other.shape:
        return 0.0
    error = ((one - other).abs().amax(1) / other.abs().amax(1).clamp(min=1.0)).amax().item()
    return float(error) if math.isfinite(error) else 0.0


def _snapshot_target(copy: Any, x: torch.Tensor) -> Any:
    target = loading.snapshot(copy)
    try:
        if tuple(loading.recipe_of(target).facts.event_shape) == tuple(x.shape[1:]):
            return target
    except FlowrefError:
        pass
    return loading.alias_live_target(target, target.with_options(event=event_option(x)))


def event_option(x: torch.Tensor) -> str:
    """The shape of one row, in the notation of the option ``event``."""
    return ",".join(map(str, x.shape[1:])) or "()"


def _file_and_line(path: str, line: int) -> str:
    return f"{path.rpartition('/')[2]}:{line}" if path else ""


def _tensors(model: Any) -> dict[str, torch.Tensor]:
    return dict([*model.named_parameters(), *model.named_buffers()])


def normalizers(model: Any) -> list[tuple[str, Any]]:
    """Returns (name, module) of submodules that are not torch's and have several floating buffers,
    as normalizers with running statistics do: one of each class.
    """
    found: dict[type, tuple[str, Any]] = {}
    for name, module in model.named_modules():
        buffers = [one for one in module.buffers(recurse=False) if one.is_floating_point()]
        if len(buffers) > 1 and not type(module).__module__.startswith("torch."):
            found.setdefault(type(module), (name, module))
    return list(found.values())


def still_at_zero(model: Any) -> list[str]:
    """Names of the modules in train mode whose ``running_mean`` is 0 in every entry although it
    should move.

    Other constant means may have converged, as when each step takes the whole data set.
    """
    return [
        name
        for name, module in model.named_modules()
        if module.training
        and isinstance(mean := getattr(module, "running_mean", None), torch.Tensor)
        and getattr(module, "momentum", None) != 0
        and not mean.any()
    ]
