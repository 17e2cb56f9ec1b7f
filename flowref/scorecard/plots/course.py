"""Running statistics against their expected values, batch by batch."""

from __future__ import annotations

import math

from markupsafe import Markup

from flowref.model.figure import Figure
from flowref.scorecard.plots import svg
from flowref.scorecard.plots.axes import Axis, linear


def course_plot(shown: Figure) -> Markup:
    """Draw the recorded values as points, and those of the nearest known convention as a line."""
    recorded, expected = shown.of("recorded"), shown.of("expected")
    if len(recorded) != len(expected) or len(recorded) < 2:
        return Markup("")
    last = len(recorded) - 1
    x = Axis(
        -0.3, last + 0.3, svg.LEFT, svg.RIGHT, labels=tuple((k, str(k)) for k in range(last + 1))
    )
    y = linear([*recorded, *expected], svg.BOTTOM, svg.TOP + 14)
    true = [(x.at(k), y.at(v)) for k, v in enumerate(expected) if math.isfinite(v)]
    parts = [svg.axes_frame(x, y, "batches in train mode", shown.note or "running mean")]
    parts.append(svg.polyline(true, "limit"))
    parts += [svg.dot(at, level, 2.5, "hollow") for at, level in true]
    for k, value in enumerate(recorded):
        if math.isfinite(value):
            tip = f"after batch {k}: recorded {value:.6g}, nearest convention {expected[k]:.6g}"
            parts.append(svg.dot(x.at(k), y.at(value), 4, "bad", tip))
    words = [("dot", "bad", "recorded"), ("line", "limit", "nearest known convention")]
    parts.append(svg.legend(words, svg.LEFT + 4, svg.TOP + 2))
    largest = max(
        (abs(a - b) for a, b in zip(recorded, expected, strict=True) if math.isfinite(a - b)),
        default=math.nan,
    )
    caption = f"{shown.note or 'the running mean'} over {last} batches; at most {largest:.4g} apart"
    return svg.svg_drawing("Running statistics", caption, *parts)
