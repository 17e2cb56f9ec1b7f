"""Comparison of reported with expected numbers, at the recorded point and at fresh ones; known bugs
are tried on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from flowref.model import Array, Subject

# A bug explains numbers if it leaves at most this share of their error, and this share of their size by
# format.
SHARE = 1e-3
LEFT = {"float64": 1e-8, "float32": 1e-4}
# The smallest error worth explaining, relative to the numbers.
WRONG = {"float64": 1e-9, "float32": 1e-4}
# The share of the largest error that a bug may leave of a solver's results.
SOLVED = 0.05
# The fewest wrong points that a bug has to explain.
LEAST = 6


@dataclass(frozen=True)
class Comparison:
    """Reported and expected numbers at one set of weights, ``got`` and ``want``, ``(points,
    numbers)``.

    ``scale``: the size that errors are relative to, ``(points, 1)``; ``usable``: mask of points
    where both are known; ``cases``: how many of the first rows belong to the recorded case;
    ``terms``: numbers that a bug may return instead, computed on demand; they may raise.
    """

    subject: Subject
    got: Array
    want: Array
    scale: Array
    usable: Array
    cases: int
    terms: dict[str, Callable[[], Array]] = field(default_factory=dict)

    def term(self, name: str) -> Array:
        """One of ``terms``, broadcast to the shape of ``got``."""
        return np.broadcast_to(numbers_per_point(self.terms[name]()), self.got.shape)

    @property
    def error(self) -> Array:
        """Largest absolute error of each point, ``(points,)``."""
        return np.asarray(np.abs(self.got - self.want).max(1))

    @property
    def wrong(self) -> Array:
        """Mask of usable points with an error to explain, ``(points,)``."""
        floor = max(WRONG[self.subject.dtype], self.tolerance) * self.scale[:, 0]
        return np.asarray(self.usable & (self.error > floor))

    def left_by(self, predicted: Array) -> Array:
        """Largest absolute difference between ``got`` and a prediction, ``(points,)``; inf for nan."""
        gap = np.abs(self.got - np.broadcast_to(predicted, self.got.shape)).max(1)
        return np.where(np.isnan(gap), np.inf, gap)

    def explained_by(self, predicted: Array) -> Array:
        """Mask of points at which a prediction agrees with ``got`` much better than the expected
        value does, ``(points,)``.
        """
        most = np.minimum(SHARE * self.error, LEFT[self.subject.dtype] * self.scale[:, 0])
        if self.tolerance:  # assumed rather than stated: its steps may be coarser
            most = np.full(len(most), SOLVED * self.error.max(initial=0.0, where=self.usable))
        return np.asarray(self.left_by(predicted) <= most)

    @property
    def tolerance(self) -> float:
        """Stated accuracy of the log-dets; 0 without a solver."""
        return self.subject.certainty.log_det

    @property
    def entries(self) -> int:
        """Number of entries of an event."""
        return math.prod(self.subject.event_shape)


def numbers_per_point(values: Array) -> Array:
    """Reshape to ``(points, numbers)``, in float64."""
    values = np.asarray(values, dtype=np.float64)
    return values.reshape(len(values), -1)


def array_comparison(
    subject: Subject, got: Array, want: Array, usable: Array, cases: int
) -> Comparison:
    """Return a comparison of two arrays with a row per point; rows that are not finite are
    unusable.
    """
    one, other = numbers_per_point(got), numbers_per_point(want)
    finite = np.isfinite(one).all(1) & np.isfinite(other).all(1)
    one, other = (np.where(np.isfinite(values), values, 0.0) for values in (one, other))
    scale = 1 + np.maximum(np.abs(one), np.abs(other)).max(1, initial=0.0, keepdims=True)
    return Comparison(subject, one, other, scale, usable & finite, cases)


Predict = Callable[[Comparison], Array]


def explains(seen: Sequence[Comparison], predict: Predict) -> bool:
    """Whether a prediction explains every wrong point at every set of weights, at least `LEAST` of
    them and one of the recorded case.
    """
    points = 0
    for comparison in seen:
        wrong = comparison.wrong
        if not wrong.any():
            continue
        try:
            with np.errstate(all="ignore"):
                explained = comparison.explained_by(predict(comparison))
        except (ArithmeticError, ValueError, LookupError, np.linalg.LinAlgError):
            return False
        if not explained[wrong].all():
            return False
        points += int(wrong.sum())
    return points >= LEAST and bool(seen[0].wrong[: seen[0].cases].any())


def everywhere(seen: Sequence[Comparison], predict: Predict) -> bool:
    """Whether a prediction that explains the wrong points also agrees at the right ones."""
    return all(
        bool(
            (comparison.left_by(predict(comparison)) <= WRONG["float32"] * comparison.scale[:, 0])[
                comparison.usable & ~comparison.wrong
            ].all()
        )
        for comparison in seen
    )
