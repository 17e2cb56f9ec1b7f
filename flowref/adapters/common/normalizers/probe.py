"""Calls of copies of an object that may normalize batches: arrays in, arrays out, in any framework."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations
from typing import Any, NamedTuple

import numpy as np

from flowref.model import Array, Shape
from flowref.model.structure.lines import LineFit, by_channel, fit_lines

# A spread of batches beside which no eps counts, and the rows with which a slope is measured.
WIDE, MANY = 200.0, 256
# How near two outputs must be to be the same, as a module in float32 computes them; how far values may be
# from a line.
SAME, STRAIGHT = 2e-4, 2e-2
# How a batch is called: in train mode, or in eval mode.
TRAIN, EVAL = True, False


class HeldArray(NamedTuple):
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


class ProbedCall(NamedTuple):
    """What a call gave, ``(rows, *event)``; whether a log-det came with it; the object afterwards."""

    value: Array
    log_det: bool
    obj: Any


@dataclass(frozen=True)
class Probe(ABC):
    """An object of a framework, called in one direction on batches of events of a shape. What depends
    on the framework is abstract.
    """

    obj: Any
    dtype: Any
    shape: Shape

    @abstractmethod
    def copied(self, obj: Any) -> Any:
        """A copy of an object, which a call may change."""

    @abstractmethod
    def once(self, obj: Any, x: Array, training: bool) -> ProbedCall:
        """One call of an object, which may change it. Raises what it raises."""

    @abstractmethod
    def held(self, obj: Any = None) -> Mapping[str, HeldArray]:
        """What an object, or else that of the probe, holds, by its dotted names."""

    @abstractmethod
    def having(self, obj: Any, name: str, values: Array) -> Any:
        """A copy of an object in which an array is another."""

    @abstractmethod
    def constants(self) -> Iterator[tuple[str, float]]:
        """The Python numbers that the object and its parts hold, by their dotted names."""

    @abstractmethod
    def with_constant(self, name: str, value: float) -> Any:
        """A copy of the object in which one of them is another."""

    @property
    def coarse(self) -> bool:
        """Whether it computes in less than double precision."""
        return "64" not in str(self.dtype)

    def _lived(self, obj: Any, steps: Sequence[tuple[bool, Array]]) -> tuple[list[Array], Any]:
        live, values = self.copied(self.obj if obj is None else obj), list[Array]()
        for training, x in steps:
            value, _, live = self.once(live, x, training)
            if value.shape != x.shape:
                raise ValueError("the output has another shape")
            values.append(value)
        return values, live

    def life(self, *steps: tuple[bool, Array], obj: Any = None) -> list[Array]:
        """The outputs of one copy for batches, each in train mode or not. Raises what a call
        raises, and `ValueError` where an output has another shape than its input.
        """
        return self._lived(obj, steps)[0]

    def after(self, *batches: Array) -> Any:
        """A copy of the object that has been trained on batches."""
        return self._lived(None, [(TRAIN, x) for x in batches])[1]

    @cached_property
    def _warm(self) -> Any:
        return self.after(self.draw(99, 9, 3.0) + 2)

    def train(self, x: Array) -> Array:
        """The output of one copy for one batch in train mode, which is not its first: what the first
        one initializes is no normalizer.
        """
        return self.life((TRAIN, x), obj=self._warm)[0]

    @cached_property
    def first(self) -> tuple[Array, Array]:
        """The batch that most questions begin with, and its output in train mode."""
        x = self.draw(0, 7)
        return x, self.train(x)

    @cached_property
    def mixes(self) -> bool:
        """Whether entries of one row have a bearing on another one, or on other rows, as in all that normalizes."""
        x, y = self.first
        changed = np.zeros(x.shape, bool)
        changed[0] = True
        changed[(0,) * x.ndim] = False
        moved = self.train(np.where(changed, x + WIDE, x))
        return not np.array_equal(moved[~changed], y[~changed], equal_nan=True)

    def offers_log_det(self) -> bool:
        """Whether a log-det comes with the value, as from a layer of a flow."""
        return self.once(self.copied(self.obj), self.draw(0, 3, 1.0), EVAL).log_det

    def draw(self, seed: int, rows: int, spread: float = WIDE) -> Array:
        """Random numbers, of which half are skewed, off zero by half of their spread."""
        rng = np.random.default_rng(seed)
        shape = (rows, *self.shape)
        z = np.where(rng.random(shape) < 0.5, rng.standard_normal(shape), rng.exponential(1, shape))
        return np.asarray(spread * (z + 0.5))

    def awake(self) -> Probe:
        """The same, or with its parameters moved where as built it returns a constant."""
        if np.ptp(self.first[1]) > 0:
            return self
        live, rng = self.obj, np.random.default_rng(0)
        for name, held in self.held().items():
            if held.trained:
                moved = held.values + 0.5 + 0.5 * rng.random(held.values.shape)
                live = self.having(live, name, moved)
        return replace(self, obj=live)


def close_in_float32(one: Array, other: Array) -> bool:
    """Whether two outputs are the same, up to what float32 costs."""
    size = max(float(np.abs(one).max()), float(np.abs(other).max()), 1e-30)
    return bool(np.isfinite(one).all() and np.abs(one - other).max() <= SAME * size)


def channel_lines(x: Array, y: Array, channel: Sequence[int]) -> LineFit:
    """The line of each channel that comes nearest to what a batch was mapped to; ``off`` relative to the
    largest value of all.
    """
    values = by_channel(y, channel)
    found = fit_lines(by_channel(x, channel), values)
    return found._replace(off=found.off / max(np.abs(values).max(), 1e-300))


def straight(x: Array, y: Array, channel: Sequence[int]) -> bool:
    """Whether each channel of a batch went through one line."""
    return bool(channel_lines(x, y, channel).off.max() <= STRAIGHT)


def counters(probe: Probe) -> list[str]:
    """The names of the single numbers that each batch in train mode makes greater by one."""
    before = probe.held()
    after = probe.held(probe.after(probe.draw(8, 5), probe.draw(9, 6)))
    return [
        name
        for name, one in before.items()
        if one.size == 1
        and not one.trained
        and one.values.dtype.kind in "iuf"
        and name in after
        and np.all(after[name].values - one.values == 2)
    ]


def together(probe: Probe, uncentred: bool = False) -> tuple[int, ...] | None:
    """The fewest axes of a batch along which a constant and a factor leave the output of train mode
    as it is: those that are normalized together. None where there are none. ``uncentred``: a factor
    does, and a constant need not.
    """
    (x, y), rng = probe.first, np.random.default_rng(1)
    if not np.abs(y - y.reshape(-1)[0]).max() > 1e-6 * np.abs(y).max():
        return None  # constant
    if len(np.unique(np.round(y, 9))) < np.unique(x).size / 2:
        return None  # saturated, as a sigmoid of large numbers is: these do not move it either

    def unmoved(axes: Sequence[int]) -> bool:
        apart = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
        return invariant_to_affine(probe, x, y, rng, apart, uncentred=uncentred)

    long = [axis for axis, size in enumerate(x.shape) if size > 1]
    if not unmoved(long):  # what one constant and one factor move, others move as well
        return None
    fewer = chain(*(combinations(long, count) for count in range(1, len(long) + 1)))
    return next(filter(unmoved, fewer), None)


def invariant_to_affine(
    probe: Probe,
    x: Array,
    y: Array,
    rng: np.random.Generator,
    apart: Shape,
    view: Shape = (),
    uncentred: bool = False,
) -> bool:
    """Whether a constant, unless ``uncentred``, and a factor leave the output of a batch as it is: one each for
    what stands together along the axes of length one of ``apart``. ``view``: the shape of the batch in these terms.
    """
    rows = x.reshape(view or x.shape)
    shift, factor = WIDE * rng.uniform(-1, 1, apart), rng.uniform(2, 4, apart)
    changed = (rows * factor,) if uncentred else (rows + shift, rows * factor)
    return all(close_in_float32(probe.train(each.reshape(x.shape)), y) for each in changed)


def grouped(probe: Probe) -> int:
    """The most groups of the channels on the first axis of an event that each sample is normalized
    in; 1 where all are normalized together.
    """
    channels, x = probe.shape[0], probe.draw(0, 5)
    y, rng = probe.train(x), np.random.default_rng(2)
    for groups in range(channels, 1, -1):
        apart = (5, groups, *[1] * len(probe.shape))
        view = (5, groups, channels // groups, *probe.shape[1:])
        if channels % groups == 0 and invariant_to_affine(probe, x, y, rng, apart, view):
            return groups
    return 1
