"""The maps that a call is composed of, each at the points that reach it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from flowref.model.call import Array
from flowref.model.component import Shape

T = TypeVar("T", covariant=True)


@dataclass(frozen=True)
class Stage:
    """One map at the points that reach it: a call, or a part of it.

    ``shape``: of an input event;
    ``x`` ``(batch, inputs)``, ``y`` ``(batch, outputs)``: inputs and outputs;
    ``pull``: cotangents ``(batch, probes, outputs)`` to gradients ``(batch, probes, inputs)``;
    ``value``: outputs at up to as many other points ``(points, inputs)``; None if the map cannot be called
        alone;
    ``work``: nominal nanoseconds of pulling back one of many cotangents of one point.
    """

    shape: Shape
    x: Array
    y: Array
    pull: Callable[[Array], Array]
    value: Callable[[Array], Array] | None = None
    work: Callable[[], float] = float


class Pieces(Protocol):
    """A call as a composition of maps, by number."""

    @property
    def runs(self) -> Sequence[range]:
        """The pieces, with successive pieces of one function grouped."""

    @property
    def chained(self) -> Stage | None:
        """The composition of all pieces as one map; None if it was already seen, without noise."""

    def rest(self, run: range) -> Stage | None:
        """A run of pieces with unchanged entries held fixed: by block triangularity the rest has the same
        determinant. None if nothing remains.
        """


class Visitor(Protocol[T]):
    """Receives a call as a whole, and on request its pieces."""

    def __call__(self, call: Stage, pieces: Callable[[], Pieces | None]) -> T:
        """The result for a call; None if the visitor needs pieces that it does not get."""
