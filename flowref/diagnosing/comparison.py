"""What a slip is tried on: numbers that should agree, at the recorded point and at fresh ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from flowref.model import Array, Subject

# A slip explains numbers where it leaves this share of their error at most, and no more than that
# of their size; by unit roundoff of the format.
SHARE = 1e-3
LEFT = {"float64": 1e-8, "float32": 1e-4}
# From this size on, relative to the numbers, something is to be explained.
WRONG = {"float64": 1e-9, "float32": 1e-4}
# The share of the largest error that may be left of what takes the steps of a solver.
SOLVED = 0.05
# Wrong points that a slip has to explain, all of them.
LEAST = 6


@dataclass(frozen=True)
class Comparison:
    """One set of weights: what a call gave and what it should have given, ``(points, numbers)``.

    ``scale``: the size that errors are relative to, ``(points, 1)``. ``usable``: where both can be
    known. ``cases``: how many rows, from the first on, are those of the recorded case. ``terms``:
    further numbers that a slip may have put in the place of the right ones, computed when asked for;
    they may raise.
    """

    subject: Subject
    got: Array
    want: Array
    scale: Array
    usable: Array
    cases: int
    terms: dict[str, Callable[[], Array]] = field(default_factory=dict)

    def term(self, name: str) -> Array:
        """One of ``terms``, in the shape of what was got."""
        return np.broadcast_to(numbers_per_point(self.terms[name]()), self.got.shape)

    @property
    def error(self) -> Array:
        """How far each point is off, ``(points,)``."""
        return np.asarray(np.abs(self.got - self.want).max(1))

    @property
    def wrong(self) -> Array:
        """Where there is something to explain, ``(points,)``."""
        floor = max(WRONG[self.subject.dtype], self.tolerance) * self.scale[:, 0]
        return np.asarray(self.usable & (self.error > floor))

    def left_by(self, predicted: Array) -> Array:
        """What a prediction leaves unexplained, ``(points,)``."""
        gap = np.abs(self.got - np.broadcast_to(predicted, self.got.shape)).max(1)
        return np.where(np.isnan(gap), np.inf, gap)

    def explained_by(self, predicted: Array) -> Array:
        """Where a prediction agrees with what was got, and much better than what is right,
        ``(points,)``.
        """
        most = np.minimum(SHARE * self.error, LEFT[self.subject.dtype] * self.scale[:, 0])
        if self.tolerance:  # which nobody stated, so that its steps may be coarser
            most = np.full(len(most), SOLVED * self.error.max(initial=0.0, where=self.usable))
        return np.asarray(self.left_by(predicted) <= most)

    @property
    def tolerance(self) -> float:
        """What its log-dets are solved to; 0 of what solves nothing."""
        return self.subject.certainty.log_det

    @property
    def entries(self) -> int:
        """Entries of an event."""
        return math.prod(self.subject.event_shape)


def numbers_per_point(values: Array) -> Array:
    """Numbers per point as ``(points, numbers)``."""
    values = np.asarray(values, dtype=np.float64)
    return values.reshape(len(values), -1)


def array_comparison(
    subject: Subject, got: Array, want: Array, usable: Array, cases: int
) -> Comparison:
    """A comparison of two arrays with a row per point."""
    one, other = numbers_per_point(got), numbers_per_point(want)
    finite = np.isfinite(one).all(1) & np.isfinite(other).all(1)
    one, other = (np.where(np.isfinite(values), values, 0.0) for values in (one, other))
    scale = 1 + np.maximum(np.abs(one), np.abs(other)).max(1, initial=0.0, keepdims=True)
    return Comparison(subject, one, other, scale, usable & finite, cases)


Predict = Callable[[Comparison], Array]


def explains(seen: Sequence[Comparison], predict: Predict) -> bool:
    """Whether a prediction explains every wrong point of every set of weights, those of the
    recorded case among them, and enough of them.
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
    """Whether a prediction that explains the wrong points is that of the others as well."""
    return all(
        bool(
            (comparison.left_by(predict(comparison)) <= WRONG["float32"] * comparison.scale[:, 0])[
                comparison.usable & ~comparison.wrong
            ].all()
        )
        for comparison in seen
    )
