"""What happens inside a call: the maps that it is made of, each at the points that reach it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from flowref.model.call import Array
from flowref.model.component import Shape


@dataclass(frozen=True)
class Stage:
    """One map at the points that reach it: a call, a part of it, or what lies between its parts.

    ``name``: of the part, empty for the whole call. ``shape``: of an event that goes in.
    ``x`` ``(batch, inputs)`` and ``y`` ``(batch, outputs)``: what goes in and what comes out.
    ``pull``: takes cotangents ``(batch, probes, outputs)`` to gradients ``(batch, probes, inputs)``.
    ``value``: what comes out at other points ``(batch, inputs)``; None where it cannot be asked alone.
    ``between``: it is no part, but what lies between parts: inputs are what goes in and what the parts
    gave, and outputs what the parts were given and what comes out in the end.
    ``work``: tells the work of pulling one of many cotangents of one point back, in nominal nanoseconds.
    """

    name: str
    shape: Shape
    x: Array
    y: Array
    pull: Callable[[Array], Array]
    value: Callable[[Array], Array] | None = None
    between: bool = False
    work: Callable[[], float] = float


class Visitor(Protocol):
    """Who is led through a call, from the whole to its parts, and told of each stage.

    ``steady``: it is led through the call as it is without noise, once for each point.
    """

    steady: bool

    def told(self, stage: Stage) -> bool:
        """Whether a stage tells what is asked; where it does not, it is taken apart."""

    def insist(self, stage: Stage) -> bool:
        """The same, of a stage that cannot be taken apart, whatever it takes."""

    def mark(self) -> Any:
        """A place to come back to."""

    def forget(self, mark: Any) -> None:
        """Drop what was told since."""

    def notes(self) -> Any:
        """What was written down."""

    def recall(self, notes: Any) -> None:
        """Write the same down again."""

    def composed(self, whole: Stage, parts: list[Stage]) -> bool:
        """Whether parts, in the order in which they are applied, are the whole."""
