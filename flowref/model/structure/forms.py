"""Parametrizations of a role's number in its attribute: logarithm, root, difference from one, ..."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Function = Callable[[Array], Array]


class Parametrization(NamedTuple):
    """A parametrization: held value -> number, number -> held value, and the derivative of the first."""

    number: Function
    held: Function
    slope: Function


def _softplus(raw: Array) -> Array:
    return np.logaddexp(0.0, raw)


def _sigmoid(raw: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-raw)))


IDENTITY = "itself"
FORMS: Mapping[str, Parametrization] = {
    IDENTITY: Parametrization(lambda raw: raw, lambda number: number, np.ones_like),
    "exp": Parametrization(np.exp, np.log, np.exp),
    "one plus": Parametrization(lambda raw: 1 + raw, lambda number: number - 1, np.ones_like),
    "softplus": Parametrization(_softplus, lambda number: np.log(np.expm1(number)), _sigmoid),
    "square": Parametrization(np.square, np.sqrt, lambda raw: 2 * raw),
    "absolute value": Parametrization(np.abs, lambda number: number, np.sign),
    "minus": Parametrization(np.negative, np.negative, lambda raw: -np.ones_like(raw)),
    "exp minus": Parametrization(
        lambda raw: np.exp(-raw), lambda number: -np.log(number), lambda raw: -np.exp(-raw)
    ),
    "reciprocal": Parametrization(
        lambda raw: 1 / raw, lambda number: 1 / number, lambda raw: -1 / raw**2
    ),
    "twice sigmoid": Parametrization(
        lambda raw: 2 * _sigmoid(raw),
        lambda number: np.log(number / (2 - number)),
        lambda raw: 2 * _sigmoid(raw) * (1 - _sigmoid(raw)),
    ),
    "exp of twice": Parametrization(
        lambda raw: np.exp(2 * raw),
        lambda number: np.log(number) / 2,
        lambda raw: 2 * np.exp(2 * raw),
    ),
    "square of reciprocal": Parametrization(
        lambda raw: 1 / raw**2, lambda number: 1 / np.sqrt(number), lambda raw: -2 / raw**3
    ),
}


@dataclass(frozen=True)
class Form:
    """The parametrization of an attribute, per channel: ``kind`` of `FORMS`, plus ``offset``; ``row``: the
    row of an attribute that holds several.
    """

    kind: str = IDENTITY
    offset: float = 0.0
    row: int | None = None

    def number(self, held: Array) -> Array:
        """The numbers ``(channels,)`` of held values."""
        with np.errstate(all="ignore"):
            raw = np.asarray(held, dtype=np.float64)
            return np.asarray(FORMS[self.kind].number(self._row(raw)) + self.offset)

    def held(self, number: Array, before: Array) -> Array:
        """The held values for numbers ``(channels,)``, other rows as in ``before``. Raises `ValueError` if
        there are none.
        """
        own = self._row(np.asarray(before, dtype=np.float64))
        wanted = np.broadcast_to(np.asarray(number, dtype=np.float64).reshape(-1), (own.size,))
        with np.errstate(all="ignore"):
            raw = FORMS[self.kind].held(wanted.reshape(own.shape) - self.offset)
        if not (
            np.isfinite(raw).all() and np.allclose(self._number_at(raw), wanted.reshape(own.shape))
        ):
            raise ValueError(f"there is no {self.kind} of {wanted.min():g}")
        if self.row is None:
            return np.asarray(raw)
        after = np.array(before, dtype=np.float64)
        after[self.row] = raw
        return after

    def gradient(self, gradient: Array, held: Array) -> Array:
        """The gradient ``(channels,)`` with respect to the number, by the chain rule."""
        with np.errstate(all="ignore"):
            slope = FORMS[self.kind].slope(self._row(np.asarray(held, dtype=np.float64)))
            return np.asarray(self._row(gradient) / slope)

    def _number_at(self, raw: Array) -> Array:
        return np.asarray(FORMS[self.kind].number(raw) + self.offset)

    def _row(self, values: Array) -> Array:
        return values if self.row is None else np.asarray(values[self.row])

    def __str__(self) -> str:
        place = "" if self.row is None else f" of row {self.row}"
        less = "" if not self.offset else f" less {-self.offset:g}"
        return f"{self.kind}{place}{less}"
