"""Arrays of numbers on which graphs are evaluated: the interface of all kinds."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

# Known signs: negative, not positive, unknown, not negative, positive.
NEGATIVE, BELOW, UNKNOWN, ABOVE, POSITIVE = -2, -1, 0, 1, 2


class NotModelled(Exception):
    """An operation that a kind of numbers does not support."""


class Numbers(ABC):
    """An array; its parts have additional leading axes."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""

    @abstractmethod
    def reshaped(self, change: Callable[[Any, int], Any]) -> Any:
        """The array rearranged by ``change``, which is called with each part and its number of
        leading axes.
        """

    @abstractmethod
    def lifted(self, value: Any) -> Any:
        """A number, or an array of numbers or booleans, as this kind. Raises `NotModelled`."""

    @staticmethod
    @abstractmethod
    def joined(numbers: Sequence[Any], axis: int) -> Any:
        """Concatenates arrays along an axis."""

    def product(self, other: Any) -> Any:
        """The product with another array of this kind; subclasses may use more than the entries."""
        return self * other

    @property
    def axes(self) -> int:
        """The number of axes."""
        return len(self.shape)


class NumberKind(Protocol):
    """The interface of a kind of numbers for runs. ``line``: of the code being computed;
    ``conditions``: clauses under which the numbers are valid.
    """

    line: str
    conditions: dict[str, None]

    def constant(self, value: Any) -> Any:
        """An array of constants."""

    def literal(self, value: Any) -> Any:
        """A number in code."""

    def free(self, shape: Sequence[int]) -> Any:
        """Arbitrary numbers of a shape."""

    def points(self, shape: Sequence[int], slopes: bool) -> Any:
        """A batch of points; with derivatives by their entries if ``slopes``."""


AnyNumbers = TypeVar("AnyNumbers", bound=Numbers)
AnyKind = TypeVar("AnyKind", bound=NumberKind)


def aligned(one: AnyNumbers, other: AnyNumbers) -> tuple[AnyNumbers, AnyNumbers]:
    """Broadcasts two arrays to the same shape."""
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
    """Concatenates arrays along an axis."""
    found: AnyNumbers = type(numbers[0]).joined(numbers, axis)
    return found


def lifted(value: Any, like: AnyNumbers) -> AnyNumbers:
    """A number, or an array of numbers or booleans, as the kind of ``like``."""
    found: Any = value if isinstance(value, Numbers) else like.lifted(value)
    return found  # type: ignore[no-any-return]  # of the kind of ``like``


def operands(one: Any, other: Any) -> tuple[Any, Any]:
    """Two operands, at least one of which is of some kind, as arrays of that kind."""
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
