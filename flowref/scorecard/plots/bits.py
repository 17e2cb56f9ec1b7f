"""The bits that were lost, and those that rounding explains: a strip for every violation."""

from __future__ import annotations

import math

from markupsafe import Markup

from flowref.model import Evidence
from flowref.reporting.numbers import rounded_text
from flowref.scorecard.plots import svg
from flowref.scorecard.plots.axes import Axis

WIDTH, HEIGHT = 520, 84
LEFT, RIGHT, TOP = 8, WIDTH - 8, 26
BAR = 16


def strip(evidence: Evidence) -> Markup:
    """Draw residual, allowance and explained rounding on an axis of bits; empty without a unit
    roundoff.
    """
    whole = round(-math.log2(evidence.unit)) if 0 < evidence.unit < 1 else 0
    floor = evidence.unit * evidence.scale
    usable = math.isfinite(floor) and floor > 0 and math.isfinite(evidence.residual)
    if not whole or not usable or evidence.residual <= 0 or evidence.allowed <= 0:
        return Markup("")

    def bits(size: float) -> float:
        if not size > 0:
            return 0.0
        return min(float(whole), max(0.0, math.log2(size) - math.log2(floor)))

    lost, allowed, explained = map(bits, (evidence.residual, evidence.allowed, evidence.explained))
    every = [k for k in range(0, whole + 1, 8 if whole > 30 else 4) if whole - k >= 3] + [whole]
    axis = Axis(0, whole, LEFT, RIGHT, labels=tuple((k, str(k)) for k in every))
    parts = [
        svg.box(axis.at(0), TOP, axis.at(whole) - axis.at(0), BAR, "track"),
        svg.box(axis.at(0), TOP, axis.at(lost) - axis.at(0), BAR, "fill bad"),
        svg.box(axis.at(0), TOP + 5, axis.at(explained) - axis.at(0), BAR - 10, "fill good"),
        svg.svg_line(axis.at(allowed), TOP - 4, axis.at(allowed), TOP + BAR + 4, "limit"),
    ]
    foot = TOP + BAR + 8
    for value, label in axis.ticks():
        anchor = "tick" if value == 0 else "tick end" if value == whole else "tick middle"
        parts.append(svg.svg_line(axis.at(value), foot, axis.at(value), foot + 4, "rule"))
        parts.append(svg.svg_text(axis.at(value), foot + 17, label, anchor))
    parts.append(svg.svg_line(LEFT, foot, RIGHT, foot, "rule"))
    words = [
        ("box", "fill bad", f"lost {lost:.1f}"),
        ("box", "fill good", f"rounding explains {explained:.1f}"),
        ("line", "limit", f"allowed {allowed:.1f}"),
    ]
    parts.append(svg.legend(words, LEFT, 14))
    parts.append(svg.svg_text(RIGHT, 14, f"of {whole} bits", "tick end"))
    caption = (
        f"{lost:.1f} of {whole} bits lost, off by {rounded_text(evidence.residual)}; rounding explains "
        f"{explained:.1f}, {allowed:.1f} are allowed"
    )
    return svg.svg_drawing("Bits lost", caption, *parts, width=WIDTH, height=HEIGHT - 8)
