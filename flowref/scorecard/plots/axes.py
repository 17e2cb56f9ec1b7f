"""Axes: positions of numbers in pixels, and ticks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class Axis:
    """The numbers ``low`` to ``high`` at the pixels ``start`` to ``end``. ``log``: by decades;
    ``zero``: with room for zero, and for numbers below ``low``, at the foot; ``labels``: explicit
    ticks.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False
    zero: bool = False
    labels: tuple[tuple[float, str], ...] = field(default=())

    def at(self, value: float) -> float:
        """The pixel of a number."""
        low, high = (
            (math.log10(self.low), math.log10(self.high)) if self.log else (self.low, self.high)
        )
        if self.log:
            if not value > 0:
                return self.start
            foot = self.gap
            share = (math.log10(value) - low) / (high - low)
            return self.start + foot + min(max(share, 0.0), 1.0) * (self.end - self.start - foot)
        share = (value - low) / (high - low)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    @property
    def gap(self) -> float:
        """The room for zero at the foot of a logarithmic axis, in pixels."""
        return math.copysign(18.0, self.end - self.start) if self.zero else 0.0

    def ticks(self, most: int = 6) -> list[tuple[float, str]]:
        """Numbers with labels, at most ``most``."""
        if self.labels:
            return list(self.labels)
        if not self.log:
            return [(value, tick_label(value)) for value in round_ticks(self.low, self.high, most)]
        first, last = (
            math.ceil(math.log10(self.low) - 1e-9),
            math.floor(math.log10(self.high) + 1e-9),
        )
        stride = next(s for s in (1, 2, 3, 4, 5, 10, 20, 50, 100, 200) if (last - first) / s < most)
        powers = [power for power in range(first, last + 1) if power % stride == 0]
        listed = [(10.0**power, decade(power)) for power in powers]
        return [(0.0, "0"), *listed] if self.zero else listed

    def minor(self) -> list[float]:
        """Ticks without labels: the tenths of decades, for at most four decades."""
        if not self.log or math.log10(self.high / self.low) > 4:
            return []
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        every = [k * 10.0**power for power in range(first, last) for k in range(2, 10)]
        return [value for value in every if self.low <= value <= self.high]


def linear(values: Iterable[float], start: float, end: float, *, room: float = 0.05) -> Axis:
    """A linear axis that contains all finite values."""
    finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    if low == high:
        low, high = low - max(0.5, abs(low) * 0.1), high + max(0.5, abs(high) * 0.1)
    more = room * (high - low)
    return Axis(low - more, high + more, start, end)


def decades(values: Iterable[float], start: float, end: float) -> Axis:
    """A logarithmic axis of whole decades that contains all positive values, with room for zero if
    it occurs.
    """
    listed = list(values)
    positive = [value for value in listed if value > 0 and math.isfinite(value)] or [1.0]
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    if low == high:
        low, high = low - 1, high + 1
    return Axis(10.0**low, 10.0**high, start, end, log=True, zero=0.0 in listed)


def round_ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers in an interval.

    >>> round_ticks(0.0, 1.0, 6)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    width = (high - low) / max(1, most)
    power = 10.0 ** math.floor(math.log10(width))
    step = next(k * power for k in (1, 2, 2.5, 5, 10, 20) if (high - low) / (k * power) <= most)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [
        round(index * step, 12 - math.floor(math.log10(step))) for index in range(first, last + 1)
    ]


def tick_label(value: float) -> str:
    """The label of a tick."""
    if value == 0:
        return "0"
    if 1e-4 <= abs(value) < 1e5:
        return f"{value:g}".replace("-", MINUS)
    mantissa, power = f"{value:.2e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".").replace("-", MINUS)
    return f"{mantissa}·{decade(int(power))}"


def decade(power: int) -> str:
    """A power of ten.

    >>> decade(-16), decade(0)
    ('10⁻¹⁶', '1')
    """
    return {0: "1", 1: "10"}.get(power) or "10" + str(power).translate(SUPERSCRIPTS)


def finite_values(values: Sequence[float]) -> list[float]:
    """The finite values."""
    return [value for value in values if math.isfinite(value)]
