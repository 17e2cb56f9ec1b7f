"""Modes that count a call's operations, and detect float32 arithmetic that affects its results."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import torch
from torch import nn

from flowref.backends.torch.callers import called_within
from flowref.backends.torch.dispatch import Dispatch
from flowref.backends.torch.rules import operator_rule
from flowref.model import Undecidable

# Operators that take a piece of a stacked parameter, as loops over layers do.
PIECES = ("select", "slice", "unbind", "index", "split", "split_with_sizes", "chunk", "narrow")
# Copies and comparisons of parameters do not count as reads.
COPIES = ("detach", "clone", "equal")
KEEPING = frozenset((*PIECES, *COPIES))

# Matrix products, of linear layers and of several networks in a batch.
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm")
# Sums, and formats in which a sum keeps few digits.
SUMS, HALVES = ("sum", "mean", "logsumexp", "einsum"), (torch.float16, torch.bfloat16)
# Operators that round to integers.
ROUNDING = ("round", "floor", "ceil", "trunc")
# In-place additions.
ADDED = ("add_", "sub_")

# A parameter read so often in one call belongs to a field that is evaluated step by step.
OFTEN = 8


class Counting(Dispatch):
    """Count the operations dispatched under it, and change nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0

    def operation(self, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Count it."""
        self.operations += 1
        return func(*args, **named)


class Watching(Dispatch):
    """Counts operations, reads of parameters, and the most rows of a matrix product, or positions
    of a convolution; changes nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operations = self.rows = 0
        self.rounds = False
        self.read: Counter[int] = Counter()
        self.read_frozen: Counter[int] = Counter()
        # The same for tensors that existed before and are no parameters, such as buffers; and
        # tensors made since.
        self.read_held: Counter[int] = Counter()
        self.made: set[int] = set()
        self.draws = 0
        self.unknown: set[str] = set()
        # Parameter -> (reads by forward calls, draws before the first, draws before the last).
        self.used: dict[int, tuple[int, int, int]] = {}

    @property
    def redrawn(self) -> float:
        """The draws between two calls that read the same often-read parameter, relative to the
        number of calls.
        """
        shares = [
            (last - first) / (times - 1)
            for times, first, last in self.used.values()
            if times >= OFTEN
        ]
        return max(shares, default=0.0)

    @property
    def readings(self) -> int:
        """The median number of reads among the trained parameters that were read; of frozen ones
        if none is trained, and of other tensors if there are no parameters.
        """
        read = self.read or self.read_frozen or self.read_held
        return sorted(read.values())[len(read) // 2] if read else 0

    def operation(self, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Runs and counts an operation."""
        self.operations += 1
        kind = func._opname
        if torch.Tag.nondeterministic_seeded in func.tags:
            self.draws += 1
        given = _tensors(args)
        if kind not in KEEPING:
            floats = [value for value in given if _is_floating(value)]
            read = [value for value in floats if isinstance(value, nn.Parameter)]
            self.read_held.update(
                {whole for value in floats if (whole := _unshared_storage_address(value))}
                - self.made
            )
            self._reads([id(value) for value in read if value.requires_grad])
            self.read_frozen.update(id(value) for value in read if not value.requires_grad)
        out = func(*args, **named)
        results = _tensors((out,))
        self.made.update(
            {_storage_address(value) for value in results}
            - {_storage_address(value) for value in given}
        )
        if not operator_rule(func).known and any(map(_is_floating, results)):
            self.unknown.add(f"{func.namespace}::{kind}")
        self.rounds |= kind in ROUNDING
        if kind in PRODUCTS or kind == "convolution":
            width = out.shape[1 if kind == "convolution" else -1]
            self.rows = max(self.rows, out.numel() // max(1, width))
        return out

    def _reads(self, parameters: list[int]) -> None:
        self.read.update(parameters)
        if parameters and torch._C._current_graph_task_id() == -1:  # not in a backward pass
            for name in parameters:
                times, first, _ = self.used.get(name, (0, self.draws, self.draws))
                self.used[name] = (times + 1, first, self.draws)


class WideSums(Dispatch):
    """Sums of half-precision numbers with one result for each of ``rows`` points are computed in
    float64.
    """

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows = rows

    def operation(self, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Runs an operation, sums in float64."""
        out = func(*args, **named)
        if func.overloadpacket.__name__ not in SUMS or not self._of_each_point(out):
            return out
        wide = {**named, "dtype": torch.float64} if named.get("dtype") else named
        return func(args[0].double(), *args[1:], **wide)

    def _of_each_point(self, out: Any) -> bool:
        narrow = isinstance(out, torch.Tensor) and out.dtype in HALVES and out.dim() > 0
        return narrow and len(out) == out.numel() == self.rows


class Limited(Dispatch):
    """Raises `Undecidable` when a call takes more than ``most`` operations; ``why``: the
    message.
    """

    def __init__(self, most: int, why: str = "it does not end") -> None:
        super().__init__()
        self.most, self.why, self.operations = most, why, 0

    def operation(self, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Runs an operation, unless there were too many."""
        self.operations += 1
        if self.operations > self.most:
            raise Undecidable(
                f"{self.why}: it was cut short after {self.most} operations, many times what it takes elsewhere"
            )
        return func(*args, **named)


class Narrowing(Dispatch):
    """Perturbs float32 results of wider values, casts included, by a relative error of up to
    ``magnitude``.

    Constants that were never wider count as exact, and are unchanged. ``sums``: whether float32
    accumulators of wider values count. ``disturbed`` counts results. ``meant``: modules that narrow on
    purpose, with their submodules; what user code casts counts, whatever it calls next.
    """

    def __init__(
        self, magnitude: float, seed: int, sums: bool = True, meant: tuple[str, ...] = ()
    ) -> None:
        super().__init__()
        self.magnitude, self.sums, self.meant = magnitude, sums, meant
        self.generator = np.random.Generator(np.random.SFC64(seed))
        self.disturbed = 0
        # Float32 results of wider values, kept alive so that their ids stay valid.
        self.narrowed: dict[int, torch.Tensor] = {}

    def operation(self, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Runs an operation, and perturbs its result."""
        out = func(*args, **named)
        inputs = [value for value in _tensors(args) if value.is_floating_point()]
        if not any(value.dtype != torch.float32 or id(value) in self.narrowed for value in inputs):
            return out
        if self.meant and self._narrows(inputs, out) and called_within(self.meant):
            return out
        name = func.overloadpacket.__name__
        if not self.sums and name in ADDED:
            return out
        cast = name == "_to_copy" or (name == "copy_" and isinstance(out, torch.Tensor))
        if cast and _is_mask(inputs[-1]):
            return out  # a mask, made in numpy, is exact and constant
        exact = operator_rule(func).exact
        results = [self._disturbed(value, cast, exact) for value in _flattened_list((out,))]
        return type(out)(results) if isinstance(out, (tuple, list)) else results[0]

    def _narrows(self, inputs: list[torch.Tensor], out: Any) -> bool:
        """Whether a result is float32, and no input was narrowed before."""
        return any(value.dtype == torch.float32 for value in _tensors((out,))) and not any(
            id(value) in self.narrowed for value in inputs
        )

    def _disturbed(self, value: Any, cast: bool, exact: bool) -> Any:
        if (
            not isinstance(value, torch.Tensor)
            or value.dtype != torch.float32
            or value.device.type != "cpu"
        ):
            return value
        if (cast or not exact) and value.numel():
            self.disturbed += 1
            # A cast to a value's own dtype returns the value itself.
            value = value.clone() if cast else value
            array = value.detach().numpy()
            array *= 1 + self.magnitude * self.generator.uniform(-1.0, 1.0, array.shape).astype(
                np.float32
            )
        self.narrowed[id(value)] = value
        return value


def _is_floating(value: torch.Tensor) -> bool:
    return value.is_floating_point() or value.is_complex()


def _storage_address(value: torch.Tensor) -> int:
    """The address of a tensor's storage; 0 if it has none, as under functorch transforms."""
    try:
        return int(value.untyped_storage().data_ptr())
    except (AttributeError, NotImplementedError, RuntimeError):
        return 0


def _unshared_storage_address(value: torch.Tensor) -> int:
    """The same for a tensor that is no view of a larger one."""
    place = _storage_address(value)
    whole = place and value.untyped_storage().nbytes() <= value.numel() * value.element_size()
    return place if whole else 0


def _is_mask(value: torch.Tensor) -> bool:
    return bool((value.detach().abs() * (value.detach().abs() - 1) == 0).all())


def _flattened_list(values: Any) -> list[Any]:
    flat: list[Any] = []
    for value in values:
        flat += _flattened_list(value) if isinstance(value, (tuple, list)) else [value]
    return flat


def _tensors(values: Any) -> list[torch.Tensor]:
    """The tensors in nested lists and tuples."""
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (tuple, list)):
            found += _tensors(value)
    return found
