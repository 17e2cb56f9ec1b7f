"""The cost of a call, counted per operator: entries written, multiply-adds, and peak memory."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

import torch

from flowref.backends.torch.rules import operator_rule
from flowref.backends.torch.torch_float32 import HALVES, Watching
from flowref.model.cost import DEAR_ENTRIES, OPERATION, work

# Matrix products, with the positions of both factors.
MATRICES = {
    "mm": (0, 1), "bmm": (0, 1), "addmm": (1, 2), "baddbmm": (1, 2), "mv": (0, 1), "addmv": (1, 2),
    "dot": (0, 1),
}  # fmt: skip
# Factorizations and solvers of square matrices: n^3 / 3 multiply-adds.
SQUARES = ("lu_factor", "solve", "slogdet", "det", "inv_ex", "qr", "svd", "matrix_exp", "cholesky")


class Enough(BaseException):
    """A call is cut short: its further cost is not counted. A `BaseException`, since measured code
    may catch `Exception`.
    """


class Saved:
    """A tensor saved by a graph."""

    def __init__(self, value: torch.Tensor) -> None:
        self.value = value


class Measuring(Watching):
    """Counts operations, entries written, multiply-adds, and the bytes that results hold.

    ``most``: nominal nanoseconds of work after which `Enough` is raised.
    """

    def __init__(self, most: float = float("inf")) -> None:
        super().__init__()
        self.most = most
        self.entries = self.products = self.factors = 0.0
        self.written = self.holding = self.held = 0
        # Storage address -> (number of owners, bytes).
        self.owners: dict[int, tuple[int, int]] = {}
        # Whether anything was computed in float32.
        self.single = False
        # Whether anything was computed in float16 or bfloat16.
        self.half = False

    @property
    def work(self) -> float:
        """The work so far, in nominal nanoseconds."""
        return work(self.operations, self.entries, self.products, self.factors)

    @property
    def dispatched(self) -> float:
        """The work of dispatching operations alone, in nominal nanoseconds."""
        return self.operations * OPERATION

    def operation(self, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Runs an operator, and counts its entries and multiply-adds."""
        out = super().operation(func, args, named)
        rule = operator_rule(func)
        if not rule.view:
            name = func.overloadpacket.__name__
            weight = DEAR_ENTRIES.get(name, 1.0)
            for value in out if isinstance(out, (tuple, list)) else (out,):
                if isinstance(value, torch.Tensor):
                    self._result(value, rule.in_place, weight)
            self.products += _multiply_adds(name, args, out)
            if name in MATRICES:
                self.factors += sum(args[index].numel() for index in MATRICES[name])
        if self.work > self.most:
            raise Enough
        return out

    def _result(self, value: torch.Tensor, in_place: bool, weight: float) -> None:
        self.entries += value.numel() * weight
        self.single |= value.dtype == torch.float32
        self.half |= value.dtype in HALVES
        if in_place:
            return
        size = value.numel() * value.element_size()
        self.written += size
        self._count_held_bytes(value, value)

    def _count_held_bytes(self, owner: Any, value: torch.Tensor) -> None:
        storage = value.untyped_storage()
        place, size = storage.data_ptr(), value.numel() * value.element_size()
        owners, size = self.owners.get(place, (0, size))
        self.owners[place] = owners + 1, size
        if not owners:
            self.holding += size
            self.held = max(self.held, self.holding)
        weakref.finalize(owner, self._released, place).atexit = False

    def _released(self, place: int) -> None:
        owners, size = self.owners.pop(place)
        if owners > 1:
            self.owners[place] = owners - 1, size
        else:
            self.holding -= size

    @contextlib.contextmanager
    def graphs(self) -> Iterator[None]:
        """Counts tensors saved for the backward pass as well, until the graph frees them."""

        def keep(value: torch.Tensor) -> Saved:
            saved = Saved(value.detach())
            if (
                value.untyped_storage().data_ptr() in self.owners
            ):  # neither a parameter nor an input
                self._count_held_bytes(saved, value)
            return saved

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda saved: saved.value):
            yield


def _multiply_adds(name: str, args: tuple[Any, ...], out: Any) -> float:
    if name in MATRICES:
        first, second = (args[index] for index in MATRICES[name])
        return float(first.numel() * (second.shape[-1] if second.dim() > 1 else 1))
    if name == "convolution" and isinstance(out, torch.Tensor):
        weight, transposed = args[1], bool(args[6])
        larger = args[0] if transposed else out
        return float(larger.numel() * weight.numel() / max(1, weight.shape[0]))
    if any(word in name for word in SQUARES) and isinstance(args[0], torch.Tensor):
        size = args[0].shape[-1] if args[0].dim() else 1
        return float(args[0].numel() * size)
    return 0.0
