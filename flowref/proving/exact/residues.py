r"""Numbers in which identities are decided: residues in towers of primes, with first derivatives.

A tower is three primes $p_0, p_1, p_2$, each 3 modulo 4, with $p_{i+1}$ a divisor of $p_i - 1$. A
number is a residue modulo each of them. The exponential raises an element of order $p_{i+1}$,
modulo $p_i$, to the residue modulo $p_{i+1}$: so $e^{a+b} = e^a e^b$ holds for residues as it does
for reals. At the end of a tower, and for a logarithm, a function is a random function of its
argument that keeps only that law: $e^{-a} = 1/e^a$, and $e^{\log u} = u$. A value with two
branches, a root or the sign of a number, takes one of them at random for each argument: what holds
at many random points holds for both. Residues modulo $p$ have a root in $\mathbb F_{p^2} = \mathbb
F_p[i]$, so a number has a real and an imaginary part after a root.

A statement that is a rational function of its inputs, of degree d, and is not zero, is zero at a
random point with probability at most d/p (Schwartz and Zippel). Many towers, of different primes
and points, are the first axis of all arrays; see Gonnet, Determining equivalence of expressions in
random polynomial time, STOC 1984.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from flowref.proving.exact.fields import (
    LEVELS,
    MIXERS,
    Pair,
    Towers,
    Words,
    inverse,
    minus,
    mixed_bits,
    plus,
    power,
    times,
)
from flowref.proving.exact.literals import reading
from flowref.proving.numbers import (
    ABOVE,
    BELOW,
    NEGATIVE,
    POSITIVE,
    UNKNOWN,
    NotModelled,
    Numbers,
    aligned,
)

# The largest multiple of 1/2 that a constant is recognized as.
MOST_HALVES = 32


@dataclass
class Field(Towers):
    """Random fields, and the numbers drawn in them.

    ``decimal``: whether a number in code is read as its decimal fraction, or as a logarithm of a
    fraction, instead of the float that it is; ``line``: of the code being computed; ``conditions``:
    clauses under which the numbers are valid; ``nested``: the line of the first root of an
    expression with roots, whose square is unknown.
    """

    decimal: bool = False
    line: str = ""
    nested: str = ""
    conditions: dict[str, None] = field(default_factory=dict)
    # Constants, by type, value and shape.
    known: dict[tuple[Any, ...], Residues] = field(default_factory=dict, repr=False, compare=False)

    def constant(self, value: Any, shape: Sequence[int] = ()) -> Residues:
        """Numbers as residues of the fractions that they are; raises `NotModelled` for non-finite
        ones.
        """
        if not isinstance(value, bool | int | float | Fraction):
            return self._constant(value, shape)
        key = type(value), value, tuple(shape)
        if key not in self.known:
            self.known[key] = self._constant(value, shape)
        return self.known[key]

    def _constant(self, value: Any, shape: Sequence[int]) -> Residues:
        found = np.asarray(value)
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            raise NotModelled("numbers that are not finite")
        if not found.size:
            return Residues(self, np.zeros((self.towers, LEVELS, *found.shape), np.uint64))
        re = self._doubles(found) if found.dtype == np.float64 else self._fractions(found)
        sign = np.where(found > 0, POSITIVE, np.where(found < 0, NEGATIVE, ABOVE)).astype(np.int8)
        numbers = found.astype(float) if found.dtype.kind in "biuf" else np.asarray(float(value))
        twice = 2 * numbers
        counted = bool((twice % 1 == 0).all() and (abs(twice) <= MOST_HALVES).all())
        number = Residues(self, re, sign=sign, halves=twice.astype(int) if counted else None)
        return (
            aligned(number, Residues(self, np.zeros((1, 1, *shape), np.uint64)))[0]
            if shape
            else number
        )

    def _fractions(self, numbers: Any) -> Words:
        unique, places = np.unique(numbers, return_inverse=True)
        each = np.array(
            [
                [
                    [one.numerator * pow(one.denominator, -1, int(p)) % int(p) for p in tower]
                    for tower in self.primes
                ]
                for one in map(Fraction, unique.tolist())
            ],
            np.uint64,
        )
        return np.ascontiguousarray(
            np.moveaxis(each[places.reshape(numbers.shape)], (-2, -1), (0, 1))
        )

    def _doubles(self, numbers: Any) -> Words:
        """Residues of m 2^e, with an integer m of 53 bits."""
        mantissas, exponents = np.frexp(numbers)
        wholes = (mantissas * 2.0**53).astype(np.int64)
        unique, places = np.unique(exponents - 53, return_inverse=True)
        powers = np.array(
            [[[pow(2, int(e), int(p)) for e in unique] for p in tower] for tower in self.primes],
            np.uint64,
        )
        p = self.p(numbers.ndim)
        found = abs(wholes).astype(np.uint64) % p * powers[..., places.reshape(numbers.shape)] % p
        signed: Words = np.where(wholes < 0, (p - found) % p, found)
        return signed

    def free(self, shape: Sequence[int], directions: Words | None = None) -> Residues:
        """Indeterminates; with derivatives along ``directions``, (count, ...), if given."""
        re = self.drawn(self.towers, LEVELS, *shape) % self.p(len(shape))
        if directions is None:
            return Residues(self, re)
        d = np.repeat(directions[None], self.towers, 0) % self.first(len(shape))
        return Residues(self, re, d=d)

    def literal(self, value: Any) -> Residues:
        """A number in code, as the field reads it."""
        if isinstance(value, float) and not math.isfinite(value):
            raise NotModelled("numbers that are not finite")
        if not self.decimal or not isinstance(value, float) or value == int(value):
            return self.constant(value)
        read = reading(value)
        if read.log or read.halves or read.fraction != Fraction(value):
            self.conditions[f"{value!r} is read as {read}"] = None
        found = self.constant(read.fraction)
        if read.halves:
            raised = self.root_of_pi.power(abs(read.halves))
            found = found * (raised if read.halves > 0 else raised.reciprocal())
        sign = np.full((), POSITIVE if read.fraction > 0 else NEGATIVE, np.int8)
        found = replace(found, sign=sign) if read.fraction else found
        return found.log() if read.log else found

    @property
    def root_of_pi(self) -> Residues:
        """The square root of pi, an unknown positive number."""
        pi = self.constant(1).opaque("pi")
        return replace(pi, sign=np.full((), POSITIVE, np.int8), d=None).sqrt()

    def points(self, shape: Sequence[int], slopes: bool) -> Residues:
        """A batch of indeterminate points; with derivatives by each entry of all of them together,
        and along a random direction of each.
        """
        if not slopes:
            return self.free(shape)
        rows, event = shape[0], shape[1:]
        entries = math.prod(event)
        each = np.repeat(np.eye(entries, dtype=np.uint64)[:, None], rows, 1)
        one = np.zeros((rows, rows, entries), np.uint64)
        one[range(rows), range(rows)] = self.drawn(rows, entries)
        return self.free(shape, np.concatenate((each, one)).reshape(entries + rows, rows, *event))

    def halves(self, shape: Sequence[int], moved: Any) -> Residues:
        """A batch of indeterminate points; with derivatives along a random direction of the
        entries ``moved``, (entries), along its restriction to the entries with each binary
        digit of their index, and along a random direction of each point.
        """
        rows, entries = shape[0], math.prod(shape[1:])
        rank = np.cumsum(moved) - 1
        digits = [moved & (rank >> digit & 1 == 1) for digit in range(int(rank[-1]).bit_length())]
        along = self.drawn(rows, entries)
        each = [np.where(part, along, np.uint64(0)) for part in (moved, *digits)]
        one = np.zeros((rows, rows, entries), np.uint64)
        one[range(rows), range(rows)] = self.drawn(rows, entries)
        return self.free(shape, np.concatenate((each, one)).reshape(-1, *shape))

    def drawn(self, *shape: int) -> Words:
        """Random words of 62 bits, of a shape."""
        return self.rng.integers(0, 2**62, size=shape, dtype=np.uint64)

    def hashed(self, name: str, *numbers: Residues) -> Words:
        """A named random function of numbers: random residues, the same for the same numbers."""
        words = np.uint64(int.from_bytes(name.encode()[:8].ljust(8, b"."), "little"))
        axes = numbers[0].axes
        mixed = mixed_bits(
            np.broadcast_to(words, (self.towers, *(1,) * axes))
            ^ self.keys[:, 0].reshape(-1, *(1,) * axes)
        )
        for number in numbers:
            for part in (number.re, number.im):
                for level in range(LEVELS):
                    word = np.uint64(0) if part is None else part[:, level]
                    mixed = mixed_bits(mixed * MIXERS[1] + word)
        levels = [
            mixed_bits(mixed + self.keys[:, level].reshape(-1, *(1,) * axes))
            for level in range(LEVELS)
        ]
        return np.stack(levels, 1) % self.p(axes)

    def random_sign(self, name: str, number: Residues) -> Words:
        """A random bit for each number, the opposite one for its negative: (towers, 1, ...)."""
        there, back = (self.hashed(name, one)[:, :1] for one in (number, -number))
        # Residues are compared as integers: one of a number and its negative is smaller.
        first = there < back
        bit = (mixed_bits(there + back) >> np.uint64(17)) & np.uint64(1)
        return np.where(first ^ bit.astype(bool), np.uint64(1), np.uint64(0))


@dataclass(frozen=True, eq=False)
class Residues(Numbers):
    """An array of residues.

    ``re``, ``im``: (towers, levels, ...), the second None for zero; ``d``, ``d_im``: derivatives,
    modulo the first primes, (towers, directions, ...), None for constants; ``exponential``: that of
    the numbers, if known otherwise; ``sign``: their known signs, (...); ``bit``: whether each is 0
    or 1; ``halves``: a constant as a multiple of 1/2, if it is one.
    """

    field: Field
    re: Words
    im: Words | None = None
    d: Words | None = None
    d_im: Words | None = None
    exponential: Pair | None = None
    sign: Any = None
    bit: bool = False
    halves: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return tuple(self.re.shape[2:])

    @property
    def pair(self) -> Pair:
        """Real and imaginary part."""
        return self.re, self.im

    @property
    def signs(self) -> Any:
        """The known signs."""
        return np.zeros(self.shape, np.int8) if self.sign is None else self.sign

    def lifted(self, value: Any) -> Residues:
        """A number, or an array of numbers or booleans, as residues."""
        if isinstance(value, np.ndarray):
            if not np.isfinite(value).all():
                raise NotModelled("numbers that are not finite")
            numbers = value.astype(float) if value.dtype == bool else value
            if value.size and (numbers == numbers.flat[0]).all():
                one = self.field.literal(numbers.flat[0].item())
                return aligned(one, self.field.constant(np.zeros(value.shape)))[0]
            found = self.field.constant(numbers)
            return replace(found, bit=bool(((numbers == 0) | (numbers == 1)).all()))
        if isinstance(value, float) and not math.isfinite(value):
            raise NotModelled(f"the number {value}")
        return self.field.literal(value)

    @staticmethod
    def joined(numbers: Sequence[Residues], axis: int) -> Residues:
        """Concatenates arrays along an axis."""
        return _concatenated_residues(numbers, axis)

    def reshaped(self, change: Callable[[Any, int], Any]) -> Residues:
        """The array rearranged by ``change``, which is applied to each part."""
        one = [
            None if part is None else change(part, 2)
            for part in (self.re, self.im, self.d, self.d_im)
        ]
        known = self.exponential
        exponential = (
            None
            if known is None
            else (change(known[0], 2), None if known[1] is None else change(known[1], 2))
        )
        sign = None if self.sign is None else change(self.sign, 0)
        halves = None if self.halves is None else change(self.halves, 0)
        assert one[0] is not None
        return Residues(
            self.field, one[0], one[1], one[2], one[3], exponential, sign, self.bit, halves
        )

    def _with(
        self, pair: Pair, d: Pair | None, sign: Any = None, exponential: Pair | None = None
    ) -> Residues:
        d_re, d_im = d or (None, None)
        return Residues(self.field, pair[0], pair[1], d_re, d_im, exponential, sign)

    @property
    def derivative(self) -> Pair | None:
        """The derivatives along each direction."""
        return None if self.d is None else (self.d, self.d_im)

    @property
    def top(self) -> Pair:
        """The residues modulo the first primes: (towers, 1, ...)."""
        return self.re[:, :1], None if self.im is None else self.im[:, :1]

    def scaled(self, by: Pair) -> Pair | None:
        """The derivatives times a number for each entry."""
        return (
            None if self.d is None else times((self.d, self.d_im), by, self.field.first(self.axes))
        )

    def __add__(self, other: Residues) -> Residues:
        a, b = aligned(self, other)
        p, first = self.field.p(a.axes), self.field.first(a.axes)
        exponential = None
        if a.exponential is not None or b.exponential is not None:
            exponential = times(a.exp().pair, b.exp().pair, p)
        d = b.derivative if a.d is None else a.derivative
        if a.d is not None and b.d is not None:
            d = plus((a.d, a.d_im), (b.d, b.d_im), first)
        return a._with(plus(a.pair, b.pair, p), d, _sign_of_sum(a.signs, b.signs), exponential)

    def __neg__(self) -> Residues:
        p = self.field.p(self.axes)
        known = self.exponential
        d = None if self.d is None else minus((self.d, self.d_im), self.field.first(self.axes))
        exponential = None if known is None else inverse(known, p)
        found = self._with(minus(self.pair, p), d, -self.signs, exponential)
        return replace(found, halves=None if self.halves is None else -self.halves)

    def __sub__(self, other: Residues) -> Residues:
        return self + -other

    def __mul__(self, other: Residues) -> Residues:
        a, b = aligned(self, other)
        p, first = self.field.p(a.axes), self.field.first(a.axes)
        parts = [one for one in (a.scaled(b.top), b.scaled(a.top)) if one is not None]
        d = plus(parts[0], parts[1], first) if len(parts) == 2 else parts[0] if parts else None
        sign = np.sign(a.signs) * np.sign(b.signs) * np.minimum(abs(a.signs), abs(b.signs))
        if self is other:
            sign = np.where(a.signs == UNKNOWN, ABOVE, sign)
        found = a._with(times(a.pair, b.pair, p), d, sign.astype(np.int8))
        for one, bit in ((a, b), (b, a)):
            if bit.bit and one.exponential is not None:
                # For a bit b, exp(b y) = 1 + b (exp(y) - 1).
                less = plus(one.exponential, minus(one.constant(1).pair, p), p)
                exponential = plus(one.constant(1).pair, times(bit.pair, less, p), p)
                return replace(found, exponential=exponential)
        counts = None if a.halves is None or b.halves is None else a.halves * b.halves
        counts = counts // 2 if counts is not None and not (counts % 2).any() else None
        return replace(found, bit=a.bit and b.bit, halves=counts)

    def product(self, other: Residues) -> Residues:
        """ab; if one has a known exponential and the other is an integer or half-integer, the
        product has too.
        """
        for number, factor in ((self, other), (other, self)):
            if number.exponential is None or factor.halves is None:
                continue
            counts = factor.halves
            if counts.size and (counts == counts.flat[0]).all():
                return aligned(number, factor)[0].by_halves(int(counts.flat[0]))
            if (counts % 2 == 0).all():
                return aligned(number, factor)[0].by_wholes(counts // 2)
        return self * other

    def by_halves(self, halves: int) -> Residues:
        """The numbers times a multiple of 1/2, with their exponential to that power."""
        found = self * self.field.constant(Fraction(halves, 2))
        if self.exponential is None:
            return found
        base = self._with(self.exponential, None, np.full(self.shape, POSITIVE, np.int8))
        base = base if halves % 2 == 0 else base.sqrt()
        count = halves // 2 if halves % 2 == 0 else halves
        raised = base.power(abs(count))
        raised = raised if count >= 0 else raised.reciprocal()
        return found._with(found.pair, found.derivative, found.signs, raised.pair)

    def by_wholes(self, wholes: Any) -> Residues:
        """The numbers times an array of integers, with their exponential to those powers."""
        found = self * self.field.constant(wholes)
        if self.exponential is None:
            return found
        base, count = aligned(self._with(self.exponential, None), found)
        exponents = np.broadcast_to(wholes, count.shape).astype(np.int64)
        back = base.reciprocal()
        raised = base.constant(1)
        for turn in range(int(abs(exponents).max(initial=0))):
            step = base._chosen(exponents > turn, back._chosen(-exponents > turn, base.constant(1)))
            raised = raised * step
        return found._with(found.pair, found.derivative, found.signs, raised.pair)

    def _chosen(self, these: Any, others: Residues) -> Residues:
        """Entries of two arrays without derivatives, selected by booleans."""
        one, other = aligned(self, others)
        zero = np.zeros_like(one.re)
        im = None
        if one.im is not None or other.im is not None:
            im = np.where(
                these, zero if one.im is None else one.im, zero if other.im is None else other.im
            )
        return one._with((np.where(these, one.re, other.re), im), None)

    def power(self, count: int) -> Residues:
        """A nonnegative integer power."""
        found: Residues | None = None
        step, left = self, count
        while left:
            if left & 1:
                found = step if found is None else found * step
            left >>= 1
            step = step * step if left else step
        return found if found is not None else self.constant(1)

    def constant(self, value: Any) -> Residues:
        """A number, in the shape of this array."""
        return self.field.constant(value, self.shape)

    def reciprocal(self) -> Residues:
        """1/a."""
        p = self.field.p(self.axes)
        zero = (
            self.re[:, 0] == 0 if self.im is None else (self.re[:, 0] == 0) & (self.im[:, 0] == 0)
        )
        if zero.any():
            raise NotModelled("a number divided by zero")
        found = inverse(self.pair, p)
        one = self._with(found, None)
        square = times(one.top, one.top, self.field.first(self.axes))
        return self._with(
            found, self.scaled(minus(square, self.field.first(self.axes))), self.signs
        )

    def __truediv__(self, other: Residues) -> Residues:
        return self * other.reciprocal()

    def exp(self) -> Residues:
        """The exponential: the known one, or a power of the base at each level, and a random
        function at the last.
        """
        pair = self._exp() if self.exponential is None else self.exponential
        value = self._with(pair, None)
        return self._with(pair, self.scaled(value.top), np.full(self.shape, POSITIVE, np.int8))

    def _exp(self) -> Pair:
        field, p = self.field, self.field.p(self.axes)
        found = np.empty_like(self.re)
        found[:, :-1] = self._raised(field.powers[0], self.re[:, 1:], p[:, :-1])
        if self.im is not None:
            other = self._raised(field.powers[1], self.im[:, 1:], p[:, :-1])
            found[:, :-1] = found[:, :-1] * other % p[:, :-1]
        there, back = (field.hashed("exp", one)[:, -1:] for one in (self, -self))
        found[:, -1:] = there * inverse((back, None), p[:, -1:])[0] % p[:, -1:]
        return found, None

    @staticmethod
    def _raised(table: Words, exponents: Words, p: Words) -> Words:
        """Powers of the bases of a table: (towers, levels - 1, ...)."""
        found = np.ones_like(exponents)
        towers, levels = table.shape[:2]
        at = np.arange(towers).reshape(-1, 1, *(1,) * (exponents.ndim - 2))
        level = np.arange(levels).reshape(1, -1, *(1,) * (exponents.ndim - 2))
        for digit in range(4):
            byte = (exponents >> np.uint64(8 * digit)) & np.uint64(255)
            found = found * table[at, level, digit, byte.astype(np.intp)] % p
        return found

    def log(self) -> Residues:
        """The logarithm: a random number with a known exponential."""
        self._require_positive("a logarithm")
        value = self.field.hashed("log", self)
        by = inverse(self.top, self.field.first(self.axes))
        return self._with((value, None), self.scaled(by), exponential=self.pair)

    def sqrt(self) -> Residues:
        """A square root in F_p[i], with a random sign for each number. For an expression with
        roots it is a random function with known derivative: what holds for every such function
        holds for the root.
        """
        self._require_positive("a root")
        sign = np.where(self.signs == POSITIVE, POSITIVE, ABOVE).astype(np.int8)
        if any(one is not None and one.any() for one in (self.im, self.d_im)):
            pair: Pair = (self.field.hashed("root", self), None)
            self.field.nested = self.field.nested or self.field.line
        else:
            pair = self._root()
        q = self.field.first(self.axes)
        by = inverse(times(self._with(pair, None).top, self.constant(2).top, q), q)
        return self._with(pair, self.scaled(by), sign)

    def _root(self) -> Pair:
        p = self.field.p(self.axes)
        root = power(self.re, (p + np.uint64(1)) >> np.uint64(2), p)
        square = root * root % p == self.re
        drawn = (self.field.hashed("sqrt", self) >> np.uint64(7)) & np.uint64(1)
        root = np.where(drawn.astype(bool), root, (p - root) % p)
        return np.where(square, root, np.uint64(0)), np.where(square, np.uint64(0), root)

    def _require_positive(self, what: str) -> None:
        """Adds a condition if a function requires positive numbers, and these are not
        known to be.
        """
        if (self.signs < ABOVE).any():
            self.field.conditions[
                f"where the argument of {what} is positive ({self.field.line})"
            ] = None

    def positive(self) -> Residues:
        """One where a number is positive and zero where it is not: as known, or at random; zero is
        not positive.
        """
        bit = self.field.random_sign("sign", self)
        some = self.re.any(1, keepdims=True)
        some = some if self.im is None else some | self.im.any(1, keepdims=True)
        bit = np.where(some, bit, np.uint64(0))
        bit = np.where(
            self.signs > ABOVE, np.uint64(1), np.where(self.signs < BELOW, np.uint64(0), bit)
        )
        return replace(
            self._with(
                (np.repeat(bit, LEVELS, 1), None), None, np.full(self.shape, ABOVE, np.int8)
            ),
            bit=True,
        )

    def opaque(self, name: str, slope: Residues | None = None) -> Residues:
        """A random function of the numbers; ``slope``: its derivative, by default another random
        function.
        """
        value = self.field.hashed(name, self)
        by = (self.field.hashed(f"{name}'", self)[:, :1], None) if slope is None else slope.top
        return self._with((value, None), self.scaled(by))


def _sign_of_sum(a: Any, b: Any) -> Any:
    same = np.sign(a) * np.sign(b) > 0
    return np.where(same, np.sign(a) * np.maximum(abs(a), abs(b)), UNKNOWN).astype(np.int8)


def _concatenated_residues(numbers: Sequence[Residues], axis: int) -> Residues:
    field, axes = numbers[0].field, numbers[0].axes
    axis = axis % axes

    def join(parts: Iterator[Any], lead: int) -> Any:
        return np.concatenate(list(parts), axis + lead)

    def filled(part: str, like: str) -> Any:
        if all(getattr(one, part) is None for one in numbers):
            return None
        total = next(
            getattr(one, like).shape[1] for one in numbers if getattr(one, like) is not None
        )
        return join(
            (
                np.zeros((field.towers, total, *one.shape), np.uint64)
                if getattr(one, part) is None
                else getattr(one, part)
                for one in numbers
            ),
            2,
        )

    exponential: Pair | None = None
    if any(one.exponential is not None for one in numbers):
        known = [one.exp().pair for one in numbers]
        imaginary = any(part[1] is not None for part in known)
        im = (
            join((np.zeros_like(part[0]) if part[1] is None else part[1] for part in known), 2)
            if imaginary
            else None
        )
        exponential = join((part[0] for part in known), 2), im
    return Residues(
        field,
        join((one.re for one in numbers), 2),
        filled("im", "re"),
        filled("d", "d"),
        filled("d_im", "d"),
        exponential,
        join((one.signs for one in numbers), 0),
    )
