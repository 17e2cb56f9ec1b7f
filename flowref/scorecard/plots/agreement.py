"""Reported against expected numbers, point by point: a wrong factor shows as a slope, a missing
constant as an offset.
"""

from __future__ import annotations

import math

from markupsafe import Markup

from flowref.model.figure import Figure
from flowref.reporting.numbers import rounded_text
from flowref.scorecard.plots import svg
from flowref.scorecard.plots.axes import linear

SIDE = 232
# Numbers count as equal up to this share of the range.
EQUAL = 1e-3


def agreement_plot(shown: Figure) -> Markup:
    """Draw the points in a square, with the line of equality; empty if all lie on it."""
    pairs = list(zip(shown.of("expected"), shown.of("got"), strict=True))
    seen = [(e, g) for e, g in pairs if math.isfinite(e) and math.isfinite(g)]
    if len(seen) < 3:
        return Markup("")
    every = [value for pair in seen for value in pair]
    x = linear(every, svg.LEFT, svg.LEFT + SIDE)
    y = linear(every, svg.TOP + SIDE, svg.TOP)
    span = x.high - x.low
    off = [abs(g - e) > EQUAL * span for e, g in seen]
    if not any(off):
        return Markup("")
    across, _, up = shown.note.partition(" against ")
    parts = [
        svg.axes_frame(x, y, up or "expected", across or "reported", most=(5, 5)),
        svg.svg_line(x.at(x.low), y.at(y.low), x.at(x.high), y.at(y.high), "limit"),
    ]
    for (expected, got), wrong in zip(seen, off, strict=True):
        tip = f"{rounded_text(got, 6)} where {rounded_text(expected, 6)} is expected"
        parts.append(svg.dot(x.at(expected), y.at(got), 3.5, "bad" if wrong else "good", tip))
    caption = f"{sum(off)} of {len(seen)} points lie off the line of equality"
    parts.append(svg.paragraph(svg.LEFT + SIDE + 24, svg.TOP + 10, f"{caption}.", "tick", 26))
    return svg.svg_drawing(shown.note or "Agreement", caption, *parts, height=svg.TOP + SIDE + 46)
