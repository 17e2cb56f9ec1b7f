"""Towers of primes, and arithmetic modulo them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

Words = np.ndarray[Any, np.dtype[np.uint64]]
# The number of primes of a tower, and a bound of the first.
LEVELS, LARGEST = 3, 2**31
# Up to so many entries are inverted faster one by one than together.
FEW_ENTRIES = 256
# Multipliers that mix the bits of a word: the golden ratio's, and two of splitmix64.
MIXERS = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)
# A residue in F_p[i]: real part, and imaginary part or None for zero.
Pair = tuple[Words, Words | None]


def is_prime(n: int) -> bool:
    """Whether a number below 2^32 is prime (Miller and Rabin, with bases 2, 3, 5 and 7)."""
    if n < 2 or any(n % small == 0 and n != small for small in (2, 3, 5, 7)):
        return False
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7):
        x = pow(base, odd, n)
        if base % n == 0 or x in (1, n - 1):
            continue
        if not any((x := x * x % n) == n - 1 for _ in range(twos - 1)):
            return False
    return True


def tower_of(rng: np.random.Generator) -> tuple[int, ...]:
    """Three random primes, the largest first."""
    while True:
        primes = [int(rng.integers(2**20, 2**21)) * 4 + 3]
        if not is_prime(primes[0]):
            continue
        for room in (2**27, LARGEST):
            most = (room // primes[0] - 2) // 4
            factors = 4 * rng.permutation(max(most, 0)) + 2
            found = next((p for k in factors if is_prime(p := int(k) * primes[0] + 1)), 0)
            if not found:
                break
            primes.insert(0, found)
        if len(primes) == LEVELS:
            return tuple(primes)


@dataclass
class Towers:
    """Random towers. ``towers``: their number; ``seed``: of all draws."""

    towers: int
    seed: int

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        primes = [tower_of(self.rng) for _ in range(self.towers)]
        self.primes: Words = np.array(primes, np.uint64)
        self.keys = self.rng.integers(1, 2**63, size=(self.towers, LEVELS), dtype=np.uint64)
        bases = [[self._element_of_order(*pair) for pair in pairwise(one)] for one in primes]
        # Powers of the bases for four digits of eight bits, and of others for imaginary exponents.
        self.powers: list[Words] = [
            self._digits(np.array(bases, np.uint64)),
            self._digits(self._others(bases)),
        ]

    def _element_of_order(self, p: int, order: int) -> int:
        while True:
            if (base := pow(int(self.rng.integers(2, p)), (p - 1) // order, p)) != 1:
                return base

    def _others(self, bases: list[list[int]]) -> Words:
        raised = [
            [
                pow(g, int(self.rng.integers(1, 2**20)), int(p))
                for g, p in zip(row, one[:-1], strict=True)
            ]
            for row, one in zip(bases, self.primes, strict=True)
        ]
        return np.array(raised, np.uint64)

    def _digits(self, bases: Words) -> Words:
        """Powers of bases, (towers, levels - 1, 4, 256)."""
        p = self.primes[:, :-1]
        table = np.ones((*bases.shape, 4, 256), np.uint64)
        step = bases
        for digit in range(4):
            for bit in (1 << place for place in range(8)):
                # Those of twice as many, of which the second half is the first, times one of them.
                table[..., digit, bit : 2 * bit] = (
                    table[..., digit, :bit] * step[..., None] % p[..., None]
                )
                step = step * step % p
        return table

    def p(self, axes: int) -> Words:
        """The primes, with ``axes`` trailing axes of size one."""
        return self.primes.reshape(self.towers, LEVELS, *(1,) * axes)

    def first(self, axes: int) -> Words:
        """The first primes, modulo which derivatives are residues, with ``axes`` trailing axes
        after that of directions.
        """
        return self.primes[:, :1].reshape(self.towers, 1, *(1,) * axes)


def mixed_bits(words: Words) -> Words:
    """The finalizer of splitmix64 (Steele, Lea and Flood, 2014)."""
    with np.errstate(over="ignore"):
        words = words + MIXERS[0]
        words = (words ^ (words >> np.uint64(30))) * MIXERS[1]
        words = (words ^ (words >> np.uint64(27))) * MIXERS[2]
        return words ^ (words >> np.uint64(31))


def plus(a: Pair, b: Pair, p: Words) -> Pair:
    """a + b."""
    im = b[1] if a[1] is None else a[1] if b[1] is None else (a[1] + b[1]) % p
    return (a[0] + b[0]) % p, None if im is None else np.broadcast_to(
        im, np.broadcast_shapes(a[0].shape, b[0].shape)
    )


def minus(a: Pair, p: Words) -> Pair:
    """-a."""
    return (p - a[0]) % p, None if a[1] is None else (p - a[1]) % p


def times(a: Pair, b: Pair, p: Words) -> Pair:
    """ab."""
    re = a[0] * b[0] % p
    if a[1] is None and b[1] is None:
        return re, None
    if a[1] is None or b[1] is None:
        return re, (a[0] * b[1] if a[1] is None else a[1] * b[0]) % p  # type: ignore[operator]  # one of them is there
    return (re + (p - a[1] * b[1] % p)) % p, (a[0] * b[1] % p + a[1] * b[0] % p) % p


def power(a: Words, exponents: Words, p: Words) -> Words:
    """a to integer powers, elementwise."""
    found = np.ones(np.broadcast_shapes(a.shape, exponents.shape), np.uint64)
    step, left = a, exponents
    while left.any():
        found = np.where(left & np.uint64(1), found * step % p, found)
        step, left = step * step % p, left >> np.uint64(1)
    return found


def inverse(a: Pair, p: Words) -> Pair:
    """1/a, and zero for zero."""
    if a[1] is None:
        return _reciprocal(a[0], p), None
    norm = (a[0] * a[0] % p + a[1] * a[1] % p) % p
    one = _reciprocal(norm, p)
    return a[0] * one % p, (p - a[1]) % p * one % p


def _reciprocal(a: Words, p: Words) -> Words:
    shape = np.broadcast_shapes(a.shape, p.shape)
    if math.prod(shape) > FEW_ENTRIES:
        return power(a, p - np.uint64(2), p)
    numbers, primes = (np.broadcast_to(one, shape).ravel().tolist() for one in (a, p))
    found = [pow(n, -1, q) if n % q else 0 for n, q in zip(numbers, primes, strict=True)]
    return np.array(found, np.uint64).reshape(shape)
