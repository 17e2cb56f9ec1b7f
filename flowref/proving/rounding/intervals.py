"""Float64 numbers on boxes: their range, and their distance from exact arithmetic.

Each entry stands for two real numbers: the one computed in float64, where each operation is rounded
and sums are added in any order, and the one that the same graph gives in exact arithmetic, on the
path of the computation. Both lie in the same interval, and a bound of their difference is stored
with it. A number that may overflow, be divided by zero or be NaN is unbounded: nothing is claimed.
The rounding of + - * is half a unit in the last place, that of quotients one and a half (a factor
may be inverted first), of roots one (vector libraries do not round them to nearest), and of
functions two: as measured, without a guarantee.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from flowref.proving.numbers import NotModelled, Numbers, aligned
from flowref.proving.rounding import enclosures as of
from flowref.proving.rounding.enclosures import Ends, Function, magnitude, smallest

# Errors in units in the last place: functions; quotients; roots; and rounding to nearest.
FUNCTION, QUOTIENT, ROOT, NEAREST = 2.0, 1.5, 1.0, 0.5
# The distance in units in the last place between a number in code and the value that it stands for.
READ = 2.0
# The factor of a bound for its own rounding.
SPARE = 1 + 2.0**-48
# Smaller products may lose precision.
SMALL = 1e-290


@dataclass
class Boxes:
    """Boxes of points, in a batch.

    ``low``, ``high``: (boxes, *event); ``context``: of each point of a batch, if there is one;
    ``decimal``: whether numbers in code stand for others, within a unit or two in the last place
    (`literals`); ``line``, ``conditions``: as in `NumberKind`.
    """

    low: Any
    high: Any
    context: Any = None
    decimal: bool = False
    line: str = ""
    conditions: dict[str, None] = field(default_factory=dict)

    def constant(self, value: Any) -> Intervals:
        """Constants."""
        found = np.asarray(value)
        numbers = found.astype(float)[None]
        whole = bool((numbers % 1 == 0).all() and (abs(numbers) < 2**31).all())
        return Intervals(self, (numbers, numbers), np.zeros_like(numbers), whole=whole).finite()

    def literal(self, value: Any) -> Intervals:
        """A number in code."""
        return self._read(self.constant(float(value)))

    def _read(self, number: Intervals) -> Intervals:
        if not self.decimal or number.whole:
            return number
        off = READ * np.spacing(np.abs(number.low))
        return replace(number, ends=of.widened_by_ulps(number.ends, READ), err=off)

    def free(self, shape: Sequence[int]) -> Intervals:
        """The context; raises `NotModelled` if there is none."""
        if self.context is None:
            raise NotModelled("a context that is not known")
        return self.constant(self.context)

    def points(self, shape: Sequence[int], slopes: bool) -> Intervals:
        """A batch of points, each anywhere in the box; with derivatives by each entry of all of
        them together, and by all entries of the first.
        """
        rows, event = shape[0], shape[1:]
        ends = [
            np.repeat(end.reshape(len(end), 1, *event), rows, 1).astype(float)
            for end in (self.low, self.high)
        ]
        d = None
        if slopes:
            each = np.eye(int(np.prod(event))).reshape(-1, 1, *event)
            first = np.zeros((1, rows, *event))
            first[:, 0] = 1.0
            one = np.concatenate((np.repeat(each, rows, 1), first))[None]
            d = one, one
        return Intervals(self, (ends[0], ends[1]), np.zeros_like(ends[0]), d)


@dataclass(frozen=True, eq=False)
class Intervals(Numbers):
    """An array of intervals.

    ``ends``: of each entry, (boxes, ...); ``err``: a bound of the distance between computed and
    exact number; ``d``: the ends of the derivatives of the latter, (boxes, directions, ...), None
    for constants; ``whole``: whether the computed numbers are exact integers or booleans. A first
    axis of size one stands for all boxes.
    """

    boxes: Boxes
    ends: Ends
    err: Any
    d: Ends | None = None
    whole: bool = False

    @property
    def low(self) -> Any:
        """The lower ends."""
        return self.ends[0]

    @property
    def high(self) -> Any:
        """The upper ends."""
        return self.ends[1]

    @property
    def size(self) -> Any:
        """The largest absolute values."""
        return magnitude(self.ends)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return tuple(self.ends[0].shape[1:])

    @property
    def small(self) -> bool:
        """Whether integers of this size are exact."""
        return bool((self.size < 2.0**53).all())

    @property
    def bounded(self) -> Any:
        """A mask of entries that are certainly finite: (boxes, ...)."""
        return np.isfinite(self.err)

    @property
    def nothing(self) -> Any:
        """A mask of exact zeros."""
        return of.zero(self.ends) & (self.err == 0)

    def reshaped(self, change: Callable[[Any, int], Any]) -> Intervals:
        """The array rearranged by ``change``, which is applied to each part."""
        d = None if self.d is None else (change(self.d[0], 2), change(self.d[1], 2))
        ends = change(self.ends[0], 1), change(self.ends[1], 1)
        return Intervals(self.boxes, ends, change(self.err, 1), d, self.whole)

    def lifted(self, value: Any) -> Intervals:
        """A number, or an array of numbers or booleans, as intervals."""
        numbers = np.asarray(value)
        if numbers.size and (numbers == numbers.flat[0]).all():
            one = self.boxes.literal(numbers.flat[0])
            return one.reshaped(
                lambda part, lead: np.broadcast_to(
                    part.reshape(1, *(1,) * numbers.ndim), (1, *numbers.shape)
                )
            )
        return self.boxes.constant(numbers)

    @staticmethod
    def joined(numbers: Sequence[Intervals], axis: int) -> Intervals:
        """Concatenates arrays along an axis."""
        axis %= numbers[0].axes

        def join(parts: Sequence[Any], lead: int) -> Any:
            front = np.broadcast_shapes(*(part.shape[:lead] for part in parts))
            wide = [np.broadcast_to(part, (*front, *part.shape[lead:])) for part in parts]
            return np.concatenate(wide, axis + lead)

        ends = [join([one.ends[at] for one in numbers], 1) for at in (0, 1)]
        d = None
        if any(one.d is not None for one in numbers):
            slopes = [one.slopes for one in numbers]
            d = join([one[0] for one in slopes], 2), join([one[1] for one in slopes], 2)
        whole = all(one.whole for one in numbers)
        err = join([one.err for one in numbers], 1)
        return Intervals(numbers[0].boxes, (ends[0], ends[1]), err, d, whole)

    @property
    def slopes(self) -> Ends:
        """The derivatives, zeros for constants."""
        nothing = np.zeros((1, 1, *self.shape))
        return (nothing, nothing) if self.d is None else self.d

    def finite(self) -> Intervals:
        """The array with non-finite ends or errors made unbounded; errors are at most the width of
        the interval.
        """
        with np.errstate(all="ignore"):
            low, high, err = np.broadcast_arrays(*self.ends, self.err)
            fine = np.isfinite(low) & np.isfinite(high) & np.isfinite(err)
            # An interval of one number has no error.
            open_ends = (err > 0) & (high > low)
            err = np.where(open_ends, of.up(np.minimum(err * SPARE, of.up(high - low))), 0.0 * err)
        ends = np.where(fine, low, -np.inf), np.where(fine, high, np.inf)
        return replace(self, ends=ends, err=np.where(fine, err, np.inf))

    def made(self, ends: Ends, err: Any, d: Ends | None = None) -> Intervals:
        """An array of this kind."""
        return Intervals(self.boxes, ends, err, d).finite()

    def certain(self, low: Any, high: Any) -> Intervals:
        """Integers or booleans between exactly computed ends."""
        ends = np.asarray(low, float), np.asarray(high, float)
        return Intervals(self.boxes, ends, np.zeros_like(ends[0]), whole=True)

    def rounded(self, units: float, exact: Any = False) -> Any:
        """The size of so many units in the last place for numbers in these intervals."""
        return np.where(exact, 0.0, of.up(units * np.spacing(self.size)))

    def __add__(self, other: Intervals) -> Intervals:
        a, b = aligned(self, other)
        if a.whole and b.whole and (found := a.certain(a.low + b.low, a.high + b.high)).small:
            return found
        d = of.optional_sum(a.d, b.d)
        sums = a.made(of.plus(a.ends, b.ends), 0.0)
        err = a.err + b.err + sums.rounded(NEAREST, a.nothing | b.nothing)
        return a.made(sums.ends, err, d)

    def __neg__(self) -> Intervals:
        d = None if self.d is None else of.negative(self.d)
        return replace(self, ends=of.negative(self.ends), d=d)

    def __sub__(self, other: Intervals) -> Intervals:
        return self + -other

    def scaled(self, slope: Ends) -> Ends | None:
        """The derivatives times a number for each entry."""
        if self.d is None:
            return None
        return of.times(self.d, (slope[0][:, None], slope[1][:, None]))

    def __mul__(self, other: Intervals) -> Intervals:
        a, b = aligned(self, other)
        ends = of.square(a.ends) if self is other else of.times(a.ends, b.ends)
        if a.whole and b.whole:
            corners = np.array([x * y for x in a.ends for y in b.ends])
            if (found := a.certain(corners.min(0), corners.max(0))).small:
                return found
        products = a.made(ends, 0.0)
        exact = a.nothing | b.nothing | ((a.binary | b.binary) & (smallest(ends) > SMALL))
        err = a.size * b.err + b.size * a.err + products.rounded(NEAREST, exact)
        d = of.optional_sum(a.scaled(b.ends), b.scaled(a.ends))
        return a.made(products.ends, err, d)

    @property
    def binary(self) -> Any:
        """A mask of exact powers of two."""
        point = (self.low == self.high) & (self.err == 0)
        return point & (np.abs(np.frexp(np.where(point, self.low, 0.0))[0]) == 0.5)

    def reciprocal(self) -> Intervals:
        """1/a."""
        return self.lifted(np.ones(self.shape)) / self

    def __truediv__(self, other: Intervals) -> Intervals:
        a, b = aligned(self, other)
        inverse = of.reciprocal(b.ends)
        quotients = a.made(of.widened_by_ulps(of.times(a.ends, inverse), QUOTIENT), 0.0)
        err = (a.err + quotients.size * b.err) / smallest(b.ends) + quotients.rounded(QUOTIENT)
        less = of.negative(of.times(of.times(a.ends, inverse), inverse)) if b.d else inverse
        d = of.optional_sum(a.scaled(inverse), b.scaled(less))
        return a.made(quotients.ends, err, d)

    def applied(self, function: Function) -> Intervals:
        """An increasing function of each entry."""
        return self.mapped(function.ends(self.ends, FUNCTION), function.slope(self.ends))

    def mapped(self, ends: Ends, slope: Ends, units: float = FUNCTION) -> Intervals:
        """A function of each entry, by its values and slopes on the intervals."""
        values = self.made(ends, 0.0)
        moved = np.where(self.err > 0, magnitude(slope) * self.err, 0.0)
        lost = np.where(smallest(values.ends) < of.LOST, of.LOST, 0.0)
        return self.made(values.ends, moved + lost + values.rounded(units), self.scaled(slope))

    def sqrt(self) -> Intervals:
        """The square root; at zero the error is bounded by the root of the argument's error."""
        inside = self.low >= 0
        low, high = of.widened_by_ulps(
            (np.sqrt(np.maximum(self.low, 0.0)), np.sqrt(self.high)), ROOT
        )
        ends = np.where(inside, np.maximum(low, 0.0), -np.inf), np.where(inside, high, np.inf)
        slope = of.reciprocal((2 * ends[0], 2 * ends[1]))
        values = self.made(ends, 0.0)
        moved = np.fmin(magnitude(slope) * self.err, of.up(np.sqrt(self.err)))
        exact = self.nothing
        return self.made(values.ends, moved + values.rounded(ROOT, exact), self.scaled(slope))

    def whole_power(self, count: int) -> Intervals:
        """A positive integer power: by products, or by the function."""
        if count == 1:
            return self
        if count == 2:
            return self * self
        ends = (smallest(self.ends), self.size) if count % 2 == 0 else self.ends
        less = (smallest(self.ends), self.size) if count % 2 else self.ends
        raised = of.widened_by_ulps((ends[0] ** count, ends[1] ** count), of.OWN + FUNCTION)
        slope = of.times(
            (count, count),
            of.widened_by_ulps((less[0] ** (count - 1), less[1] ** (count - 1)), of.OWN),
        )
        return self.mapped(raised, slope)

    def chosen(self, other: Intervals, bit: Intervals) -> Intervals:
        """These entries where a boolean is one, others where it is zero, and the hull where it is
        open.
        """
        a, b = aligned(self, other)
        a, bit = aligned(a, bit)
        b, _ = aligned(b, bit)
        yes, no = bit.low == 1, bit.high == 0

        def pick(these: Any, others: Any, both: Any, lead: int) -> Any:
            one, zero = (flag if lead == 1 else flag[:, None] for flag in (yes, no))
            return np.where(one, these, np.where(zero, others, both))

        wide = of.hull(a.ends, b.ends)
        ends = tuple(pick(a.ends[at], b.ends[at], wide[at], 1) for at in (0, 1))
        err = pick(a.err, b.err, np.maximum(a.err, b.err), 1)
        d = None
        if a.d is not None or b.d is not None:
            steep = of.hull(a.slopes, b.slopes)
            low, high = (pick(a.slopes[at], b.slopes[at], steep[at], 2) for at in (0, 1))
            d = low, high
        found = Intervals(self.boxes, (ends[0], ends[1]), err, d, a.whole and b.whole)
        return found.finite()
