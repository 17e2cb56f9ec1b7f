"""The derivative of a number along a direction, by differences with an error estimate."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# Steps as powers of two, and finer ones for wide networks, whose kinks lie closer together.
EXPONENTS, FINE = (-8, -11, -14, -17), (-19, -23, -27)
# If the two finest steps agree this well, relatively, with each other and with the claimed value,
# coarser steps are ignored.
AGREED = 1e-9
# Steps to each side, and the relative difference of one-sided slopes that counts as a kink.
ASIDE, KINK = (2.0**-14, 2.0**-17), 1e-5


def derivative(
    total_at: Callable[[float], float],
    claimed: float,
    factor: float,
    exponents: tuple[int, ...] = EXPONENTS,
) -> tuple[float, float]:
    """The derivative of ``total_at`` at 0 and its error: Richardson-extrapolated central
    differences at several steps, of which the two that agree best are used.

    Two steps across the same kinks agree by chance, so a finer step that confirms the ``claimed``
    derivative within ``factor`` times its error is preferred. At a kink at 0 itself, as at the end
    of a clamp, any slope between the two one-sided ones is valid; the error is then their
    distance.
    """
    estimate, error = _both_sides(total_at, claimed, factor, exponents)
    if abs(claimed - estimate) > factor * error:
        error = max(error, _kink(total_at, claimed))
    return estimate, error


def _kink(total_at: Callable[[float], float], claimed: float) -> float:
    """The distance of the one-sided slopes if ``claimed`` lies between them, else 0."""
    here, apart = total_at(0.0), np.inf
    for step in ASIDE:
        right, left = (
            sign * (4 * total_at(sign * step / 2) - total_at(sign * step) - 3 * here) / step
            for sign in (1.0, -1.0)
        )
        gap, slack = abs(right - left), KINK * (1 + abs(claimed))
        between = min(left, right) - slack <= claimed <= max(left, right) + slack
        apart = min(apart, gap) if between and gap > 4 * slack else 0.0
    return float(apart) if np.isfinite(apart) else 0.0


def _both_sides(
    total_at: Callable[[float], float], claimed: float, factor: float, exponents: tuple[int, ...]
) -> tuple[float, float]:
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
