"""Inline SVG: elements, and the frame shared by plots. Colors and strokes are CSS classes, so that
one drawing serves light and dark mode.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

from flowref.scorecard.plots.axes import Axis

WIDTH, HEIGHT = 520, 276
LEFT, RIGHT, TOP, BOTTOM = 70, WIDTH - 18, 16, HEIGHT - 46


def element(tag: str, *content: object, **attributes: object) -> Markup:
    """An SVG element; ``class_`` is its class, and underscores in attribute names become hyphens."""
    named = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(_rounded_coordinate(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    inner = Markup("").join(escape(part) for part in content)
    return Markup(f"<{tag}{named}>{inner}</{tag}>") if content else Markup(f"<{tag}{named}/>")


def _rounded_coordinate(value: object) -> object:
    """Round coordinates to a tenth of a pixel."""
    return f"{value:.1f}".rstrip("0").rstrip(".") if isinstance(value, float) else value


def svg_drawing(
    title: str, caption: str, *parts: Markup, width: int = WIDTH, height: int = HEIGHT
) -> Markup:
    """A drawing with its title, and a description for screen readers."""
    return element(
        "svg",
        element("title", title),
        element("desc", caption),
        *parts,
        class_="plot",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_label=f"{title}. {caption}",
    )


def axes_frame(x: Axis, y: Axis, across: str, up: str, *, most: tuple[int, int] = (7, 6)) -> Markup:
    """Both axes with ticks, grid lines and labels."""
    parts: list[Markup] = []
    for value, label in y.ticks(most[1]):
        at = y.at(value)
        parts.append(svg_line(x.start, at, x.end, at, "grid"))
        parts.append(svg_text(x.start - 8, at + 4, label, "tick end"))
    for value, label in x.ticks(most[0]):
        at = x.at(value)
        parts.append(svg_line(at, y.start, at, y.start + 5, "rule"))
        parts.append(svg_text(at, y.start + 18, label, "tick middle"))
    parts += [svg_line(x.at(v), y.start, x.at(v), y.start + 3, "rule") for v in x.minor()]
    parts += [svg_line(x.start - 3, y.at(v), x.start, y.at(v), "rule") for v in y.minor()]
    parts.append(svg_line(x.start, y.start, x.end, y.start, "rule"))
    parts.append(svg_line(x.start, y.start, x.start, y.end, "rule"))
    parts.append(svg_text((x.start + x.end) / 2, y.start + 38, across, "label middle"))
    middle = (y.start + y.end) / 2
    parts.append(
        element(
            "text", up, class_="label middle", transform=f"translate(14 {middle:.0f}) rotate(-90)"
        )
    )
    return element("g", *parts)


def svg_line(x1: float, y1: float, x2: float, y2: float, style: str) -> Markup:
    """A straight line."""
    return element("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=style)


def svg_text(x: float, y: float, content: str, style: str) -> Markup:
    """A text; its class sets the anchor."""
    return element("text", content, x=float(x), y=float(y), class_=style)


def paragraph(x: float, y: float, words: str, style: str, width: int = 22) -> Markup:
    """Text wrapped to ``width`` characters."""
    lines = textwrap.wrap(words, width)
    return element("g", *(svg_text(x, y + 15 * k, line, style) for k, line in enumerate(lines)))


def polyline(points: Iterable[tuple[float, float]], style: str) -> Markup:
    """A line through points."""
    return element("polyline", points=_polyline_points(points), class_=style)


def area(points: Sequence[tuple[float, float]], foot: float, style: str) -> Markup:
    """The area between a line and the foot of the plot."""
    if not points:
        return Markup("")
    ends = [(points[0][0], foot), *points, (points[-1][0], foot)]
    return element("polygon", points=_polyline_points(ends), class_=style)


def _polyline_points(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(
        f"{_rounded_coordinate(float(x))},{_rounded_coordinate(float(y))}" for x, y in points
    )


def dot(x: float, y: float, radius: float, style: str, tip: str = "") -> Markup:
    """A point; ``tip``: the text shown on hovering."""
    content = (element("title", tip),) if tip else ()
    return element("circle", *content, cx=float(x), cy=float(y), r=radius, class_=style)


def box(x: float, y: float, width: float, height: float, style: str, tip: str = "") -> Markup:
    """A rectangle."""
    content = (element("title", tip),) if tip else ()
    return element(
        "rect",
        *content,
        x=float(x),
        y=float(y),
        width=float(width),
        height=float(height),
        class_=style,
    )


def legend(entries: Sequence[tuple[str, str, str]], x: float, y: float) -> Markup:
    """A legend of (shape, class, words) in a row. Shapes: dot, line, box."""
    parts: list[Markup] = []
    for shape, style, words in entries:
        if shape == "dot":
            parts.append(dot(x + 6, y - 4, 3.5, style))
        elif shape == "line":
            parts.append(svg_line(x, y - 4, x + 14, y - 4, style))
        else:
            parts.append(box(x, y - 9, 14, 10, style))
        parts.append(svg_text(x + 19, y, words, "tick"))
        x += 32 + 6.1 * len(words)
    return element("g", *parts)
