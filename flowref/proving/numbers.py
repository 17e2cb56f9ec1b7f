"""Arrays of numbers that a graph is run on: what all kinds of them offer, whatever stands for a number."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

# Signs that are known: of a negative number, of one that is none above zero, of nothing known, and so on.
NEGATIVE, BELOW, UNKNOWN, ABOVE, POSITIVE = -2, -1, 0, 1, 2


class NotModelled(Exception):
    """An operation that no numbers of a kind stand for."""


class Numbers(ABC):
    """An array, of which each part has axes of its own in front of those of the array."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """That of the array."""

    @abstractmethod
    def reshaped(self, change: Callable[[Any, int], Any]) -> Any:
        """The same numbers in another arrangement. ``change``: of a part, of which so many axes in front stay."""

    @abstractmethod
    def lifted(self, value: Any) -> Any:
        """A number, an array of numbers or truth values, as one of this kind. Raises: `NotModelled`."""

    @staticmethod
    @abstractmethod
    def joined(numbers: Sequence[Any], axis: int) -> Any:
        """Arrays side by side along an axis."""

    def product(self, other: Any) -> Any:
        """With another array of this kind, of which more may be known than of its entries."""
        return self * other

    @property
    def axes(self) -> int:
        """How many axes it has."""
        return len(self.shape)


class NumberKind(Protocol):
    """What a run needs of a kind of numbers. ``line``: of the code that is being computed; ``conditions``: under which
    numbers are what they are, a clause each.
    """

    line: str
    conditions: dict[str, None]

    def constant(self, value: Any) -> Any:
        """An array of numbers as they are."""

    def literal(self, value: Any) -> Any:
        """A number in code."""

    def free(self, shape: Sequence[int]) -> Any:
        """Any numbers."""

    def points(self, shape: Sequence[int], slopes: bool) -> Any:
        """A batch of points; with derivatives by their entries."""


AnyNumbers = TypeVar("AnyNumbers", bound=Numbers)
AnyKind = TypeVar("AnyKind", bound=NumberKind)


def aligned(one: AnyNumbers, other: AnyNumbers) -> tuple[AnyNumbers, AnyNumbers]:
    """Two arrays of the same shape."""
    shape = np.broadcast_shapes(one.shape, other.shape)

    def stretched(number: AnyNumbers) -> AnyNumbers:
        if number.shape == shape:
            return number
        more = (1,) * (len(shape) - number.axes)

        def change(part: Any, lead: int) -> Any:
            return np.broadcast_to(
                part.reshape(*part.shape[:lead], *more, *part.shape[lead:]),
                (*part.shape[:lead], *shape),
            )

        stretched: AnyNumbers = number.reshaped(change)
        return stretched

    return stretched(one), stretched(other)


def concatenate_numbers(numbers: Sequence[AnyNumbers], axis: int) -> AnyNumbers:
    """Arrays side by side along an axis."""
    found: AnyNumbers = type(numbers[0]).joined(numbers, axis)
    return found


def lifted(value: Any, like: AnyNumbers) -> AnyNumbers:
    """A number, an array of numbers or truth values, as the kind of another one."""
    found: Any = value if isinstance(value, Numbers) else like.lifted(value)
    return found  # type: ignore[no-any-return]  # of the kind of ``like``


def operands(one: Any, other: Any) -> tuple[Any, Any]:
    """Two operands, of which one at least is an array of some kind, as arrays of that kind."""
    like = one if isinstance(one, Numbers) else other
    return lifted(one, like), lifted(other, like)


def add(a: Any, b: Any, alpha: Any = 1) -> Any:
    """a + alpha b."""
    one, other = operands(a, b)
    return one + (other if alpha == 1 else mul(other, alpha))


def sub(a: Any, b: Any, alpha: Any = 1) -> Any:
    """a - alpha b."""
    one, other = operands(a, b)
    return one - (other if alpha == 1 else mul(other, alpha))


def mul(a: Any, b: Any) -> Any:
    """ab."""
    one, other = operands(a, b)
    return one.product(one if a is b else other)


def div(a: Any, b: Any, rounding_mode: Any = None) -> Any:
    """a/b."""
    if rounding_mode is not None:
        raise NotModelled("a quotient that is rounded")
    if isinstance(b, int | float) and b and math.frexp(abs(b))[0] == 0.5:
        return mul(a, 1 / b)
    one, other = operands(a, b)
    return one / other
