"""Reported minus true derivative, entry by entry."""

from __future__ import annotations

import math

from markupsafe import Markup

from flowref.model.figure import Figure
from flowref.reporting.numbers import rounded_text
from flowref.scorecard.plots import svg
from flowref.scorecard.plots.axes import tick_label

SIDE, STEPS, WRITTEN = 232, 4, 6


def heat_plot(shown: Figure) -> Markup:
    """Draw a square per entry, in four steps on either side of zero."""
    reported, true = shown.of("reported"), shown.of("true")
    columns = int(shown.of("columns")[0])
    if not reported or len(reported) != len(true) or columns < 1 or len(true) % columns:
        return Markup("")
    gaps = [a - b for a, b in zip(reported, true, strict=True)]
    rows = len(gaps) // columns
    top = max((abs(gap) for gap in gaps if math.isfinite(gap)), default=0.0)
    if not top and all(map(math.isfinite, gaps)):
        return Markup("")
    cell = min(SIDE / max(rows, columns), 48.0)
    left, head = 46, 30
    parts = []
    for index, gap in enumerate(gaps):
        row, column = divmod(index, columns)
        x, y = left + column * cell, head + row * cell
        tip = (
            f"row {row + 1}, column {column + 1}: reported {rounded_text(reported[index], 6)}, "
            f"true {rounded_text(true[index], 6)}, difference {rounded_text(gap)}"
        )
        parts.append(svg.box(x, y, cell, cell, f"heat {_step(gap, top)}", tip))
        if columns <= WRITTEN and cell >= 30:
            style = "entry strong middle" if _step(gap, top)[1:] in ("3", "4") else "entry middle"
            parts.append(svg.svg_text(x + cell / 2, y + cell / 2 + 4, _gap_text(gap), style))
    width, height = columns * cell, rows * cell
    parts.append(svg.svg_text(left + width / 2, head - 10, f"{columns} inputs", "label middle"))
    parts.append(
        svg.element(
            "text",
            f"{rows} outputs",
            class_="label middle",
            transform=f"translate({left - 12} {head + height / 2:.0f}) rotate(-90)",
        )
    )
    bar = left + width + 34
    shades = [f"n{k}" for k in range(STEPS, 0, -1)] + ["z"] + [f"p{k}" for k in range(1, STEPS + 1)]
    size = min(22.0, max(12.0, height / len(shades)))
    for index, shade in enumerate(reversed(shades)):
        parts.append(svg.box(bar, head + index * size, 14, size, f"heat {shade}"))
    whole = size * len(shades)
    for share, label in ((0.0, top), (0.5, 0.0), (1.0, -top)):
        at = head + share * whole + (10 if share == 0 else 4 if share == 0.5 else 0)
        parts.append(svg.svg_text(bar + 20, at, tick_label(float(f"{label:.2g}")), "tick"))
    what = shown.note or "reported minus true Jacobian"
    parts.append(svg.paragraph(bar + 92, head + 10, what, "label"))
    caption = f"{what}: {rows} by {columns} entries, at most {rounded_text(top)} in size"
    tall = int(head + max(height, whole, 80.0) + 12)
    return svg.svg_drawing("Jacobian", caption, *parts, height=tall)


def _step(gap: float, top: float) -> str:
    if not math.isfinite(gap):
        return "lost"
    if not top or gap == 0:
        return "z"
    size = math.ceil(STEPS * abs(gap) / top - 0.5)
    return "z" if size <= 0 else f"{'p' if gap > 0 else 'n'}{min(size, STEPS)}"


def _gap_text(gap: float) -> str:
    return "0" if gap == 0 else f"{gap:.0e}".replace("e-0", "e-").replace("e+0", "e+")
