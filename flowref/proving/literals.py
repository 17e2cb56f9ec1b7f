"""Numbers in code, as residues of what they may stand for: fractions, powers of pi, and logarithms of these."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from flowref.proving.numbers import NEGATIVE, POSITIVE, NotModelled

if TYPE_CHECKING:
    from flowref.proving.residues import Field, Residues

# Numerators and denominators up to which a number in code may be the logarithm of a fraction.
FRACTIONS = 4096
# Powers of pi, in halves, that a number in code may hold.
PI = (0, -1, 1, -2, 2)


def literal(field: Field, value: float | Fraction) -> Residues:
    """A number in code, as the field reads it."""
    if isinstance(value, float) and not math.isfinite(value):
        raise NotModelled("numbers that are not finite")
    if not field.decimal or not isinstance(value, float) or value == int(value):
        return field.constant(value)
    for name, found in _readings(value):
        field.conditions[f"{value!r} is read as {name}"] = None
        return found(field)
    written = Fraction(repr(value))
    if written != Fraction(value):
        field.conditions[f"{value!r} is read as {written}"] = None
    return field.constant(written)


def _readings(value: float) -> Iterator[tuple[str, Callable[[Field], Residues]]]:
    """What a number in code may stand for: a fraction times a power of pi, or the logarithm of one."""
    if not 0 < abs(value) < 50:
        return
    near = Fraction(value).limit_denominator(FRACTIONS)
    if float(near) == value:
        yield str(near), partial(_symbol, near, 0, False)
        return
    for log, number in ((True, math.exp(value)), (False, value)):
        for halves in PI:
            bare = number / math.pi ** (halves / 2)
            near = Fraction(bare).limit_denominator(FRACTIONS if not halves else 64)
            small = 0 < abs(near.numerator) <= FRACTIONS and (log or halves)
            back = float(near) * math.pi ** (halves / 2) if near > 0 or not log else 0.0
            if not small or back == 0 or (log and (back <= 0 or (near == 1 and not halves))):
                continue
            if abs((math.log(back) if log else back) - value) <= math.ulp(value):
                words = f"{near}" + ("" if not halves else f" pi^{Fraction(halves, 2)}")
                yield f"{'log ' * log}{words}", partial(_symbol, near, halves, log)
                return


def _symbol(near: Fraction, halves: int, log: bool, field: Field) -> Residues:
    """A fraction times a power of pi, which is a number of which nothing is known; or the logarithm of it."""
    found = field.constant(near)
    if halves:
        raised = root_of_pi(field).power(abs(halves))
        found = found * (raised if halves > 0 else raised.reciprocal())
    found = replace(found, sign=np.full((), POSITIVE if near > 0 else NEGATIVE, np.int8))
    return found.log() if log else found


def root_of_pi(field: Field) -> Residues:
    """Of which nothing is known."""
    pi = field.constant(1).opaque("pi")
    return replace(pi, sign=np.full((), POSITIVE, np.int8), d=None).sqrt()
