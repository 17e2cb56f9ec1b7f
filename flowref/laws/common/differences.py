"""The derivative of a number along a direction, by differences with an error estimate."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# Steps, as powers of two; and those of wide networks, whose kinks lie closer together.
EXPONENTS, FINE = (-8, -11, -14, -17), (-17, -20, -23)
# Where the finest two steps agree so well, relatively, with each other and with what is claimed, they are
# believed, and coarser ones have nothing to say.
AGREED = 1e-9


def derivative(
    total_at: Callable[[float], float],
    claimed: float,
    factor: float,
    exponents: tuple[int, ...] = EXPONENTS,
) -> tuple[float, float]:
    """The derivative at 0, and its error: Richardson-extrapolated central differences at several
    steps, of which the two that agree best are taken.

    Two steps that straddle the same kinks agree by chance: a finer one that sides with the
    derivative that is ``claimed``, within ``factor`` times its error, is believed.
    """

    def at(exponent: int) -> float:
        step = 2.0**exponent
        values = [total_at(t) for t in (step, -step, step / 2, -step / 2)]
        return (4 * (values[2] - values[3]) / step - (values[0] - values[1]) / (2 * step)) / 3

    fine = [at(exponent) for exponent in exponents[-2:]]
    gap = abs(fine[1] - fine[0])
    if abs(claimed - fine[1]) <= factor * gap <= factor * AGREED * (1 + abs(claimed)):
        return float(fine[1]), float(gap)
    estimates = [*(at(exponent) for exponent in exponents[:-2]), *fine]
    gaps = np.abs(np.diff(estimates))
    best = int(np.argmin(np.where(np.isfinite(gaps), gaps, np.inf)))
    for finer in range(best, len(gaps)):
        if abs(claimed - estimates[finer + 1]) <= factor * gaps[finer]:
            best = finer
            break
    return float(estimates[best + 1]), float(gaps[best])
