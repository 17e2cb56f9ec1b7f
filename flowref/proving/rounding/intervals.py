"""Numbers of double precision on boxes: between which ends they lie, and how far they are from exact arithmetic.

Each entry holds two real numbers: what is computed in double precision, by operations of which each is rounded and of which
sums are added up in any order, and what the same graph gives in exact arithmetic, on the path that the computation takes. Both
lie in the same interval, and a bound of their difference is kept beside it. What may overflow, be divided by zero or be no
number is unbounded, as nothing is said of it.

Rounded are + - * by half a unit in the last place, quotients by one and a half (a factor may be inverted first), roots by one
(libraries of vectors do not round them to the nearest number), and functions by two: what is measured, and not guaranteed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from flowref.proving.numbers import NotModelled, Numbers, aligned
from flowref.proving.rounding import enclosures as of
from flowref.proving.rounding.enclosures import Ends, Function, magnitude, smallest

# Units in the last place by which functions may be off; quotients; roots; and what is rounded to the nearest number.
FUNCTION, QUOTIENT, ROOT, NEAREST = 2.0, 1.5, 1.0, 0.5
# Units in the last place by which a number in code may differ from what it is read as.
READ = 2.0
# What a bound is enlarged by, as it is itself computed: a few roundings.
SPARE = 1 + 2.0**-48
# Below, products may be no numbers of full precision.
SMALL = 1e-290


@dataclass
class Boxes:
    """Boxes that points lie in, side by side.

    ``low``, ``high``: (boxes, *event); ``context``: of each point of a batch, if there is one; ``decimal``: whether numbers in
    code stand for others, by a unit or two in the last place (`literals`); ``line``, ``conditions``: as of all kinds of
    numbers.
    """

    low: Any
    high: Any
    context: Any = None
    decimal: bool = False
    line: str = ""
    conditions: dict[str, None] = field(default_factory=dict)

    def constant(self, value: Any) -> Intervals:
        """Numbers as they are."""
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
        """The context. Raises: `NotModelled` where none is known."""
        if self.context is None:
            raise NotModelled("a context that is not known")
        return self.constant(self.context)

    def points(self, shape: Sequence[int], slopes: bool) -> Intervals:
        """A batch of points, each anywhere in the box; with derivatives by each entry of all of them at once, and by all
        entries of the first of them.
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
    """An array.

    ``ends``: of each entry, (boxes, ...); ``err``: how far what is computed is from exact arithmetic, at most; ``d``: the ends
    of the derivatives of the latter, (boxes, directions, ...), None where nothing depends on points; ``whole``: whether what
    is computed are whole numbers, or truth values, that are exact. An axis of boxes of one stands for all.
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
        """The largest size of a number."""
        return magnitude(self.ends)

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the array."""
        return tuple(self.ends[0].shape[1:])

    @property
    def small(self) -> bool:
        """Whether whole numbers of this size are exact."""
        return bool((self.size < 2.0**53).all())

    @property
    def bounded(self) -> Any:
        """Which entries are finite, for sure: (boxes, ...)."""
        return np.isfinite(self.err)

    @property
    def nothing(self) -> Any:
        """Which entries are zero, without an error."""
        return of.zero(self.ends) & (self.err == 0)

    def reshaped(self, change: Callable[[Any, int], Any]) -> Intervals:
        """The same numbers in another arrangement."""
        d = None if self.d is None else (change(self.d[0], 2), change(self.d[1], 2))
        ends = change(self.ends[0], 1), change(self.ends[1], 1)
        return Intervals(self.boxes, ends, change(self.err, 1), d, self.whole)

    def lifted(self, value: Any) -> Intervals:
        """A number, an array of numbers or truth values."""
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
        """Arrays side by side along an axis."""
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
        """The derivatives, zeros where there are none."""
        nothing = np.zeros((1, 1, *self.shape))
        return (nothing, nothing) if self.d is None else self.d

    def finite(self) -> Intervals:
        """These, unbounded where an end or the error is no finite number; no error is larger than its interval is wide."""
        with np.errstate(all="ignore"):
            low, high, err = np.broadcast_arrays(*self.ends, self.err)
            fine = np.isfinite(low) & np.isfinite(high) & np.isfinite(err)
            # Two numbers in an interval of one are the same.
            open_ends = (err > 0) & (high > low)
            err = np.where(open_ends, of.up(np.minimum(err * SPARE, of.up(high - low))), 0.0 * err)
        ends = np.where(fine, low, -np.inf), np.where(fine, high, np.inf)
        return replace(self, ends=ends, err=np.where(fine, err, np.inf))

    def made(self, ends: Ends, err: Any, d: Ends | None = None) -> Intervals:
        """Numbers of this kind."""
        return Intervals(self.boxes, ends, err, d).finite()

    def certain(self, low: Any, high: Any) -> Intervals:
        """Whole numbers, or truth values, between ends that are computed exactly."""
        ends = np.asarray(low, float), np.asarray(high, float)
        return Intervals(self.boxes, ends, np.zeros_like(ends[0]), whole=True)

    def rounded(self, units: float, exact: Any = False) -> Any:
        """Of numbers between these ends, by how much so many units in the last place are."""
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
        """The derivatives times a number of each entry."""
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
        """Which entries are a power of two, without an error."""
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
        """A root; at zero the root of an error bounds what it is off by."""
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
        """To a whole power, of one or more: by products, or by the function."""
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
        """These where a truth value is one, others where it is zero, and what holds both where it is open."""
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
