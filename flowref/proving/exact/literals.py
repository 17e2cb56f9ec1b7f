"""The values that numbers in code may stand for: fractions, powers of pi, and logarithms
of these.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

# The largest numerator and denominator of a fraction, or of the logarithm of one.
FRACTIONS = 4096
# Powers of pi, in halves, that a number in code may contain.
PI = (0, -1, 1, -2, 2)


@dataclass(frozen=True)
class Reading:
    """A fraction times a power of pi, in ``halves``; ``log``: the logarithm of that."""

    fraction: Fraction
    halves: int = 0
    log: bool = False

    def __str__(self) -> str:
        power = f" pi^{Fraction(self.halves, 2)}" if self.halves else ""
        return f"{'log ' * self.log}{self.fraction}{power}"


def reading(value: float) -> Reading:
    """The value that a number in code stands for: a small fraction, a small fraction times a power
    of pi, the logarithm of one, or else its decimal fraction.
    """
    written = Reading(Fraction(repr(value)))
    if not 0 < abs(value) < 50:
        return written
    near = Fraction(value).limit_denominator(FRACTIONS)
    if float(near) == value:
        return Reading(near)
    for log, number in ((True, math.exp(value)), (False, value)):
        for halves in PI:
            bare = number / math.pi ** (halves / 2)
            near = Fraction(bare).limit_denominator(FRACTIONS if not halves else 64)
            small = 0 < abs(near.numerator) <= FRACTIONS and (log or halves)
            back = float(near) * math.pi ** (halves / 2) if near > 0 or not log else 0.0
            if not small or back == 0 or (log and (back <= 0 or (near == 1 and not halves))):
                continue
            if abs((math.log(back) if log else back) - value) <= math.ulp(value):
                return Reading(near, halves, log)
    return written
