"""Calls of copies of a possible batch normalizer, in any framework: arrays in, arrays out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations
from typing import Any, NamedTuple

import numpy as np

from flowref.model import Array, Shape
from flowref.model.structure.line_fits import LineFit, by_channel, fit_lines

# A spread that makes eps negligible, and the rows for measuring a slope.
WIDE, MANY = 200.0, 256
# Tolerance for equal outputs in float32, and for values on a line.
SAME, STRAIGHT = 2e-4, 2e-2
# Modes of a call.
TRAIN, EVAL = True, False


class HeldArray(NamedTuple):
    """Numbers in an object, and whether they are trained."""

    values: Array
    trained: bool

    @property
    def size(self) -> int:
        """The number of entries."""
        return self.values.size

    @property
    def length(self) -> int:
        """The number of channels: half of the entries if a tensor holds two numbers each."""
        rows = self.values.shape[0] if self.values.ndim == 2 else 1
        return self.size // 2 if rows == 2 else self.size

    @property
    def floating(self) -> bool:
        """Whether they are floats."""
        return self.values.dtype.kind == "f"


class ProbedCall(NamedTuple):
    """The value ``(rows, *event)`` of a call, whether a log-det came with it, and the object afterwards."""

    value: Array
    log_det: bool
    obj: Any


@dataclass(frozen=True)
class Probe(ABC):
    """An object called in one direction on batches of an event shape; framework-specific parts are
    abstract.
    """

    obj: Any
    dtype: Any
    shape: Shape

    @abstractmethod
    def copied(self, obj: Any) -> Any:
        """A copy of an object, which a call may change."""

    @abstractmethod
    def once(self, obj: Any, x: Array, training: bool) -> ProbedCall:
        """One call on a batch ``x (rows, *event)``, which may change the object. Exceptions pass."""

    @abstractmethod
    def held(self, obj: Any = None) -> Mapping[str, HeldArray]:
        """Numbers held by an object, by default the probe's, by dotted name."""

    @abstractmethod
    def having(self, obj: Any, name: str, values: Array) -> Any:
        """A copy of an object with the array ``name`` replaced by ``values`` of its shape."""

    @abstractmethod
    def constants(self) -> Iterator[tuple[str, float]]:
        """Python numbers of the object and its parts, by dotted name."""

    @abstractmethod
    def with_constant(self, name: str, value: float) -> Any:
        """A copy of the object with one of the constants replaced."""

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
        """The outputs of one copy for successive batches in given modes. Raises the exception of a call,
        and `ValueError` if an output has another shape than its input.
        """
        return self._lived(obj, steps)[0]

    def after(self, *batches: Array) -> Any:
        """A copy of the object after training batches."""
        return self._lived(None, [(TRAIN, x) for x in batches])[1]

    @cached_property
    def _warm(self) -> Any:
        return self.after(self.draw(99, 9, 3.0) + 2)

    def train(self, x: Array) -> Array:
        """The output ``(rows, *event)`` in train mode for a batch that is not the first, which may only
        initialize.
        """
        return self.life((TRAIN, x), obj=self._warm)[0]

    @cached_property
    def first(self) -> tuple[Array, Array]:
        """The first batch of most tests and its output in train mode, ``(rows, *event)`` each."""
        x = self.draw(0, 7)
        return x, self.train(x)

    @cached_property
    def mixes(self) -> bool:
        """Whether entries of a row affect other entries or rows, as in any normalizer."""
        x, y = self.first
        changed = np.zeros(x.shape, bool)
        changed[0] = True
        changed[(0,) * x.ndim] = False
        moved = self.train(np.where(changed, x + WIDE, x))
        return not np.array_equal(moved[~changed], y[~changed], equal_nan=True)

    def offers_log_det(self) -> bool:
        """Whether a log-det is returned with the value, as by a layer of a flow."""
        return self.once(self.copied(self.obj), self.draw(0, 3, 1.0), EVAL).log_det

    def draw(self, seed: int, rows: int, spread: float = WIDE) -> Array:
        """Random numbers ``(rows, *event)``, half of them skewed, with a mean of half their spread."""
        rng = np.random.default_rng(seed)
        shape = (rows, *self.shape)
        z = np.where(rng.random(shape) < 0.5, rng.standard_normal(shape), rng.exponential(1, shape))
        return np.asarray(spread * (z + 0.5))

    def awake(self) -> Probe:
        """The probe, or one with moved parameters if the object initially returns a constant."""
        if np.ptp(self.first[1]) > 0:
            return self
        live, rng = self.obj, np.random.default_rng(0)
        for name, held in self.held().items():
            if held.trained:
                moved = held.values + 0.5 + 0.5 * rng.random(held.values.shape)
                live = self.having(live, name, moved)
        return replace(self, obj=live)


def close_in_float32(one: Array, other: Array) -> bool:
    """Whether two outputs of equal shape agree up to float32 rounding."""
    size = max(float(np.abs(one).max()), float(np.abs(other).max()), 1e-30)
    return bool(np.isfinite(one).all() and np.abs(one - other).max() <= SAME * size)


def channel_lines(x: Array, y: Array, channel: Sequence[int]) -> LineFit:
    """The least-squares line of each channel from ``x`` to ``y``, ``(rows, *event)`` each; ``off`` relative
    to the largest value.
    """
    values = by_channel(y, channel)
    found = fit_lines(by_channel(x, channel), values)
    return found._replace(off=found.off / max(np.abs(values).max(), 1e-300))


def straight(x: Array, y: Array, channel: Sequence[int]) -> bool:
    """Whether each channel of a batch ``x (rows, *event)`` is mapped affinely to ``y``."""
    return bool(channel_lines(x, y, channel).off.max() <= STRAIGHT)


def counters(probe: Probe) -> list[str]:
    """Names of scalars that each train-mode batch increments by one."""
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
    """The fewest batch axes along which outputs in train mode are invariant to a shift and a factor: the
    axes normalized together. None if there are none. ``uncentred``: invariant to a factor only.
    """
    (x, y), rng = probe.first, np.random.default_rng(1)
    if not np.abs(y - y.reshape(-1)[0]).max() > 1e-6 * np.abs(y).max():
        return None  # constant
    if len(np.unique(np.round(y, 9))) < np.unique(x).size / 2:
        return None  # saturated, such as a sigmoid of large numbers, and therefore invariant

    def unmoved(axes: Sequence[int]) -> bool:
        apart = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
        return invariant_to_affine(probe, x, y, rng, apart, uncentred=uncentred)

    long = [axis for axis, size in enumerate(x.shape) if size > 1]
    if not unmoved(long):  # also invariant along further axes
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
    """Whether the output of a batch is invariant to a shift (unless ``uncentred``) and a factor, constant
    along the axes where ``apart`` has length one. ``view``: the batch shape in these terms.
    """
    rows = x.reshape(view or x.shape)
    shift, factor = WIDE * rng.uniform(-1, 1, apart), rng.uniform(2, 4, apart)
    changed = (rows * factor,) if uncentred else (rows + shift, rows * factor)
    return all(close_in_float32(probe.train(each.reshape(x.shape)), y) for each in changed)


def grouped(probe: Probe) -> int:
    """The maximal number of channel groups, on the first event axis, that are normalized separately within
    a sample; 1 if there are no groups.
    """
    channels, x = probe.shape[0], probe.draw(0, 5)
    y, rng = probe.train(x), np.random.default_rng(2)
    for groups in range(channels, 1, -1):
        apart = (5, groups, *[1] * len(probe.shape))
        view = (5, groups, channels // groups, *probe.shape[1:])
        if channels % groups == 0 and invariant_to_affine(probe, x, y, rng, apart, view):
            return groups
    return 1
