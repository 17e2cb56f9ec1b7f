"""A density in one or two dimensions, with its integral over the plotted region."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from markupsafe import Markup

from flowref.model.figure import Figure
from flowref.scorecard.plots import svg
from flowref.scorecard.plots.axes import Axis, linear, tick_label

LEVELS = 9
SIDE = 240


def density_plot(shown: Figure) -> Markup:
    """Draw a curve over its area, or a map in nine steps from zero to the largest value."""
    if len(shown.of("low")) == 1:
        return _curve(shown)
    return _density_map(shown)


def _integral_text(shown: Figure) -> str:
    (integral, *_) = shown.of("integral") or (math.nan,)
    if not math.isfinite(integral):
        return shown.note
    return f"its integral over this region is {integral:.6g}"


def _curve(shown: Figure) -> Markup:
    values = [v if math.isfinite(v) else 0.0 for v in shown.of("density")]
    low, high = shown.of("low")[0], shown.of("high")[0]
    x = Axis(low, high, svg.LEFT, svg.RIGHT)
    bars = shown.of("sampled")
    y = linear([0.0, *values, *bars], svg.BOTTOM, svg.TOP + 14, room=0.0)
    width = (high - low) / len(values)
    points = [(x.at(low + (k + 0.5) * width), y.at(v)) for k, v in enumerate(values)]
    parts = [
        svg.axes_frame(x, y, "x", "density p(x)"),
        *_sample_histogram(bars, x, y),
        svg.area(points, y.start, "allowed"),
        svg.polyline(points, "course"),
        svg.svg_text(svg.RIGHT, svg.TOP + 2, _integral_text(shown), "tick end"),
    ]
    if bars:
        words = [("line", "course", "density"), ("box", "sampled", "samples")]
        parts.append(svg.legend(words, svg.LEFT + 4, svg.TOP + 2))
    return svg.svg_drawing("Density", _integral_text(shown), *parts)


def _sample_histogram(heights: Sequence[float], x: Axis, y: Axis) -> list[Markup]:
    wide = (x.end - x.start) / max(1, len(heights))
    return [
        svg.box(x.start + k * wide, y.at(h), wide - 1, y.start - y.at(h), "sampled")
        for k, h in enumerate(heights)
        if h > 0
    ]


def _density_map(shown: Figure) -> Markup:
    values = [v if math.isfinite(v) else 0.0 for v in shown.of("density")]
    count = math.isqrt(len(values))
    if count * count != len(values) or not count:
        return Markup("")
    (left, foot), (right, head) = shown.of("low"), shown.of("high")
    x = Axis(left, right, svg.LEFT, svg.LEFT + SIDE)
    y = Axis(foot, head, svg.TOP + SIDE, svg.TOP)
    top = max(values) or 1.0
    steps = [min(LEVELS, round(LEVELS * v / top)) for v in values]
    cell = SIDE / count
    parts = [svg.box(svg.LEFT, svg.TOP, SIDE, SIDE, "level l0")]
    parts.append(svg.axes_frame(x, y, "first coordinate", "second coordinate", most=(5, 5)))
    for level in range(1, LEVELS + 1):
        if path := _cells(steps, level, count, cell):
            parts.append(svg.element("path", d=path, class_=f"level l{level}"))
    dots = shown.of("sampled")
    for across, up in zip(dots[::2], dots[1::2], strict=False):
        if math.isfinite(across) and math.isfinite(up):
            parts.append(svg.dot(x.at(across), y.at(up), 1.6, "sample"))
    bar = svg.LEFT + SIDE + 30
    height = SIDE / (LEVELS + 1)
    for level in range(LEVELS + 1):
        at = svg.TOP + SIDE - (level + 1) * height
        parts.append(svg.box(bar, at, 14, height + 0.4, f"level l{level}"))
    for share in (0.0, 0.5, 1.0):
        at = svg.TOP + SIDE * (1 - share) + (0 if share == 1 else 4) + (8 if share == 1 else 0)
        parts.append(svg.svg_text(bar + 20, at, tick_label(float(f"{share * top:.3g}")), "tick"))
    parts.append(svg.svg_text(bar + 82, svg.TOP + 10, "density p(x)", "label"))
    parts.append(svg.paragraph(bar + 82, svg.TOP + 34, _integral_text(shown), "tick", 17))
    if dots:
        parts.append(svg.legend([("dot", "sample", "samples")], bar + 82, svg.TOP + 130))
    caption = f"a map of p(x), at most {top:.4g}; {_integral_text(shown)}"
    return svg.svg_drawing("Density", caption, *parts, height=svg.TOP + SIDE + 46)


def _cells(steps: Sequence[int], level: int, count: int, cell: float) -> str:
    """All cells of one level as one SVG path, merged along rows; the first row is the lowest."""
    parts = []
    for row in range(count):
        cells = enumerate(steps[row * count : (row + 1) * count])
        for key, run in itertools.groupby(cells, lambda pair: pair[1]):
            if key == level:
                columns = [column for column, _ in run]
                x = svg.LEFT + columns[0] * cell
                y = svg.TOP + (count - 1 - row) * cell
                wide = len(columns) * cell
                parts.append(f"M{x:.2f} {y:.2f}h{wide:.2f}v{cell:.2f}h-{wide:.2f}z")
    return "".join(parts)
