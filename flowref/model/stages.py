"""What happens inside a call: the maps that it is made of, each at the points that reach it."""

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

    ``shape``: of an event that goes in.
    ``x`` ``(batch, inputs)`` and ``y`` ``(batch, outputs)``: what goes in and what comes out.
    ``pull``: takes cotangents ``(batch, probes, outputs)`` to gradients ``(batch, probes, inputs)``.
    ``value``: what comes out at as many other points ``(points, inputs)``, or fewer; None where it
    cannot be asked alone.
    ``work``: tells the work of pulling one of many cotangents of one point back, in nominal nanoseconds.
    """

    shape: Shape
    x: Array
    y: Array
    pull: Callable[[Array], Array]
    value: Callable[[Array], Array] | None = None
    work: Callable[[], float] = float


class Pieces(Protocol):
    """A call cut into maps that follow each other, by number."""

    @property
    def runs(self) -> Sequence[range]:
        """The pieces, of which those that follow each other and are one function each stand together."""

    @property
    def chained(self) -> Stage | None:
        """All of them, one after the other, as one map; None where they were seen to be the call before,
        without noise.
        """

    def rest(self, run: range) -> Stage | None:
        """What is left of pieces that follow each other where what passes as it is is held: a block
        triangular Jacobian has the determinant of what remains. None where nothing remains.
        """


class Visitor(Protocol[T]):
    """Who is shown a call as a whole, and, if that is asked, the pieces that it can be cut into."""

    def __call__(self, call: Stage, pieces: Callable[[], Pieces | None]) -> T:
        """What is made of a call, which may refuse to be cut: None."""
