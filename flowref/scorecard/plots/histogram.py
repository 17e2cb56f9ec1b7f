"""The probability integral transform of samples as a histogram, with the band of uniform numbers."""

from __future__ import annotations

import math

from markupsafe import Markup

from flowref.model.figure import Figure
from flowref.scorecard.plots import svg
from flowref.scorecard.plots.axes import Axis, linear

# 99 of 100 bins of uniform numbers lie within this many standard deviations.
DEVIATIONS = 2.576


def histogram_plot(shown: Figure) -> Markup:
    """Draw bars of relative frequency about 1; bins outside the band are marked."""
    counts = shown.of("counts")
    draws, bins = sum(counts), len(counts)
    if not draws or bins < 2:
        return Markup("")
    heights = [count * bins / draws for count in counts]
    spread = DEVIATIONS * math.sqrt((bins - 1) / draws)
    x = Axis(0.0, 1.0, svg.LEFT, svg.RIGHT)
    y = linear([0.0, *heights, 1 + 2 * spread], svg.BOTTOM, svg.TOP + 14, room=0.0)
    parts = [
        svg.axes_frame(
            x, y, "distribution function of the base at the latent", "relative frequency"
        ),
        svg.box(
            x.start,
            y.at(1 + spread),
            x.end - x.start,
            y.at(max(0.0, 1 - spread)) - y.at(1 + spread),
            "allowed",
        ),
    ]
    outside = 0
    for index, height in enumerate(heights):
        left, right = x.at(index / bins) + 0.5, x.at((index + 1) / bins) - 0.5
        bad = abs(height - 1) > spread
        outside += bad
        tip = f"{index / bins:g} to {(index + 1) / bins:g}: {counts[index]:.0f} of {draws:.0f}"
        style = "bar bad" if bad else "bar"
        parts.append(svg.box(left, y.at(height), right - left, y.start - y.at(height), style, tip))
    parts.append(svg.svg_line(x.start, y.at(1.0), x.end, y.at(1.0), "limit"))
    words = [
        ("box", "bar", "draws"),
        ("box", "bar bad", "outside the band"),
        ("box", "allowed", "99 % of uniform bins"),
    ]
    parts.append(svg.legend(words, svg.LEFT + 4, svg.TOP + 2))
    caption = (
        f"{draws:.0f} draws in {bins} bins; {outside} bins lie outside the band that holds 99 of 100 "
        f"bins of uniform numbers{'; ' + shown.note if shown.note else ''}"
    )
    return svg.svg_drawing("Probability integral transform", caption, *parts)
