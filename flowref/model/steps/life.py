"""One step of the life of an object, and the outcomes of a list of steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Out = TypeVar("Out", covariant=True)


@dataclass(frozen=True)
class Step(Generic[Out]):
    """One step of a life, whose outcome is an ``Out``."""


class Life(Sequence[Any]):
    """The outcomes of a list of steps, in order; ``life.of(step)`` is that of one step."""

    def __init__(self, steps: Sequence[Step[Any]], outcomes: Sequence[Any]) -> None:
        self.steps, self.outcomes = tuple(steps), tuple(outcomes)

    def __getitem__(self, index: Any) -> Any:
        return self.outcomes[index]

    def __len__(self) -> int:
        return len(self.outcomes)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.outcomes)

    def of(self, step: Step[Out]) -> Out:
        """The outcome of one of the steps, which are compared by identity."""
        index = next(index for index, other in enumerate(self.steps) if other is step)
        outcome: Out = self.outcomes[index]
        return outcome
