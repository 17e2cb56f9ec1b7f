"""Calls of copies of a module that may normalize batches, and what they show: arrays in, arrays
out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from flowref.model import Array, Shape
from flowref.model.structure.lines import by_channel, fitted
from flowref.model.switching import switches

# A spread of batches beside which no eps counts, and the rows with which a slope is measured.
WIDE, MANY = 200.0, 256
# How near two outputs must be to be the same, as a module in float32 computes them.
SAME = 2e-4


class Lines(NamedTuple):
    """Slope and level of the map of each channel that a batch went through, and how far its values
    are from the line, relative to them.
    """

    slope: Array
    level: Array
    off: float


class Held(NamedTuple):
    """What an object holds under a name: numbers, and whether training moves them."""

    values: Array
    trained: bool

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return self.values.size

    @property
    def length(self) -> int:
        """For how many channels there is a number: half as many where two numbers share a tensor."""
        rows = self.values.shape[0] if self.values.ndim == 2 else 1
        return self.size // 2 if rows == 2 else self.size

    @property
    def floating(self) -> bool:
        """Whether they are no whole numbers and no flags."""
        return self.values.dtype.kind == "f"


@dataclass(frozen=True)
class Played:
    """Copies of an object of torch that are called in one direction; ``call``: a function of a
    dialect. What is particular to a framework is here; others have a class of their own.
    """

    obj: Any
    call: Callable[..., Any]
    dtype: Any
    shape: Shape

    @property
    def coarse(self) -> bool:
        """Whether it computes in less than double precision."""
        return "64" not in str(self.dtype)

    def life(self, *steps: tuple[bool, Array], obj: Any = None) -> list[Array]:
        """The outputs of one copy for batches, each in train mode or not. Raises what a call
        raises, and `ValueError` where an output has another shape than its input.
        """
        import torch

        live = copy.deepcopy(self.obj) if obj is None else obj
        outputs = []
        for training, x in steps:
            if switches(live):
                live.train(training)
            given = torch.tensor(np.ascontiguousarray(x), dtype=self.dtype)  # it may write to it
            with torch.no_grad():
                out = self.call(live, given, None)[0]
            if out.shape != given.shape:
                raise ValueError("the output has another shape")
            outputs.append(out.detach().to(torch.float64).numpy().copy())
        return outputs

    def copied(self, obj: Any) -> Any:
        """A copy of an object, which a life may change."""
        return copy.deepcopy(obj)

    def held(self, obj: Any = None) -> dict[str, Held]:
        """What an object holds, by its dotted names: parameters, buffers and plain attributes."""
        found = tensors(self.obj if obj is None else obj)
        return {
            name: Held(numbers(tensor), bool(tensor.requires_grad))
            for name, tensor in found.items()
        }

    def having(self, obj: Any, name: str, row: int | None, values: Array) -> Any:
        """A copy of an object in which an array, or a row of it, is another."""
        import torch

        live = copy.deepcopy(obj)
        tensor = tensors(live)[name]
        given = torch.as_tensor(values, dtype=tensor.dtype)
        with torch.no_grad():
            (tensor if row is None else tensor[row]).data.copy_(given)
        return live

    def constants(self) -> Iterator[tuple[str, float]]:
        """The Python numbers that the object and its submodules hold, by their dotted names."""
        for label, part in self.obj.named_modules():
            for name, value in vars(part).items():
                if isinstance(value, float):
                    yield f"{label}.{name}" if label else name, value

    def with_constant(self, name: str, value: float) -> Any:
        """A copy of the object in which one of them is another."""
        live = copy.deepcopy(self.obj)
        owner, _, attribute = name.rpartition(".")
        setattr(live.get_submodule(owner), attribute, value)
        return live

    def after(self, *batches: Array) -> Any:
        """A copy of the object that has been trained on batches."""
        live = copy.deepcopy(self.obj)
        self.life(*((True, x) for x in batches), obj=live)
        return live

    def train(self, x: Array) -> Array:
        """The output of one copy for one batch in train mode, which is not its first: what the first
        one initializes is no normalizer.
        """
        warm = self.draw(99, 9, 3.0) + 2
        return self.life((True, warm), (True, x))[1]

    def draw(self, seed: int, rows: int, spread: float = WIDE) -> Array:
        """Random numbers, of which half are skewed, off zero by half of their spread."""
        rng = np.random.default_rng(seed)
        shape = (rows, *self.shape)
        z = np.where(rng.random(shape) < 0.5, rng.standard_normal(shape), rng.exponential(1, shape))
        return np.asarray(spread * (z + 0.5))


def tensors(obj: Any) -> dict[str, Any]:
    """Every tensor that a module holds, by its dotted name: parameters, buffers and plain
    attributes.
    """
    import torch

    found: dict[str, Any] = {}
    for label, part in obj.named_modules():
        prefix = f"{label}." if label else ""
        own = {**vars(part), **part._parameters, **part._buffers}
        found |= {
            f"{prefix}{name}": value
            for name, value in own.items()
            if isinstance(value, torch.Tensor) and not value.is_complex()
        }
    return found


def numbers(tensor: Any) -> Array:
    """What a tensor holds; floating numbers in double precision."""
    plain = tensor.detach()
    return np.array(plain.double().numpy() if plain.is_floating_point() else plain.numpy())


def awake(played: Played) -> Played:
    """The same, or with its parameters moved where as built it returns a constant."""
    import torch

    y = played.train(played.draw(0, 7))
    if np.ptp(y) > 0:
        return played
    live, generator = copy.deepcopy(played.obj), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in live.parameters():
            parameter += 0.5 + 0.5 * torch.rand(parameter.shape, generator=generator)
    return replace(played, obj=live)


def near(one: Array, other: Array) -> bool:
    """Whether two outputs are the same, up to what float32 costs."""
    size = max(float(np.abs(one).max()), float(np.abs(other).max()), 1e-30)
    return bool(np.isfinite(one).all() and np.abs(one - other).max() <= SAME * size)


def together(played: Played, uncentred: bool = False) -> tuple[int, ...] | None:
    """The fewest axes of a batch along which a constant and a factor leave the output of train mode
    as it is: those that are normalized together. None where there are none. ``uncentred``: a factor
    does, and a constant need not.
    """
    shape = (7, *played.shape)
    x = played.draw(0, 7)
    rng = np.random.default_rng(1)
    y = played.train(x)
    if not np.abs(y - y.reshape(-1)[0]).max() > 1e-6 * np.abs(y).max():
        return None  # constant
    if len(np.unique(np.round(y, 9))) < np.unique(x).size / 2:
        return None  # saturated, as a sigmoid of large numbers is: these do not move it either
    long = [axis for axis, size in enumerate(shape) if size > 1]
    for count in range(1, len(long) + 1):
        for axes in combinations(long, count):
            apart = [1 if axis in axes else size for axis, size in enumerate(shape)]
            moved = x + WIDE * rng.uniform(-1, 1, apart)
            if not uncentred and not near(played.train(moved), y):
                continue
            if near(played.train(x * rng.uniform(2, 4, apart)), y):
                return axes
    return None


def grouped(played: Played) -> int:
    """The most groups of the channels on the first axis of an event that each sample is normalized
    in; 1 where all are normalized together.
    """
    channels, x = played.shape[0], played.draw(0, 5)
    y, rng = played.train(x), np.random.default_rng(2)
    for groups in range(channels, 1, -1):
        if channels % groups:
            continue
        apart = (5, groups, *[1] * len(played.shape))
        rows = x.reshape(5, groups, channels // groups, *played.shape[1:])
        moved = (rows + WIDE * rng.uniform(-1, 1, apart)).reshape(x.shape)
        scaled = (rows * rng.uniform(2, 4, apart)).reshape(x.shape)
        if near(played.train(moved), y) and near(played.train(scaled), y):
            return groups
    return 1


def lines(x: Array, y: Array, channel: Sequence[int]) -> Lines:
    """The lines per channel that come nearest to what a batch was mapped to."""
    values = by_channel(y, channel)
    slope, level, off = fitted(by_channel(x, channel), values)
    return Lines(slope, level, float(off.max() / max(np.abs(values).max(), 1e-300)))
