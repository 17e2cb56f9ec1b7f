"""What the summary is drawn with: pictures in SVG, tables, and their style."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence

from _results import Value

STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #66707f; --line: #d9dee6; --ours: #1f6fb2; --peer: #a9b4c2;
  --good: #2e8b57; --bad: #c0392b; --paper: #fff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --soft: #9aa5b4; --line: #333c48; --ours: #5aa9e6; --peer: #5c6776;
  --good: #58b884; --bad: #e57368; --paper: #14181e; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto; padding: 0 1rem;
  max-width: 68rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.2rem; margin-top: 2.4rem; }
h3 { font-size: .95rem; margin: 1rem 0 .3rem; } figure h3 { margin-top: 0; }
p, figcaption, .soft { color: var(--soft); max-width: 48rem; } a { color: var(--ours); }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(19rem, 1fr)); gap: 1.4rem 2rem; }
figure { margin: 0; } svg { width: 100%; height: auto; display: block; }
svg text { font: 11px system-ui, sans-serif; fill: var(--ink); }
svg .soft { fill: var(--soft); } table { border-collapse: collapse; font-size: .9rem; }
td, th { padding: .15rem .8rem .15rem 0; text-align: left; border-bottom: 1px solid var(--line); }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
code { font-size: .9em; } figcaption { font-size: .8rem; overflow-wrap: anywhere; }
"""
WIDTH, LABEL, ROW = 360, 104, 19
# Where curves begin and end: beside numbers of six characters, and names of sixteen.
LEFT, RIGHT = 44, 254
COLOURS = ("var(--ours)", "#e08a1e", "#7a5bbd", "#2e8b57")


def told(number: float) -> str:
    """A number in a few characters."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{suffix}"
    return f"{number:.3g}"


def text(x: float, y: float, said: str, anchor: str = "start", kind: str = "") -> str:
    """Text of a picture."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{html.escape(said)}</text>'


def figure(title: str, body: Iterable[str], height: float, caption: str = "") -> str:
    """A picture with its title, and what stands below it, in HTML."""
    label = html.escape(title)
    svg = f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{label}">{"".join(body)}</svg>'
    below = f"<figcaption>{caption}</figcaption>" if caption else ""
    return f"<figure><h3>{label}</h3>{svg}{below}</figure>"


def bars(title: str, rates: Sequence[tuple[str, float | None]]) -> str:
    """One bar per implementation, as long as its throughput; n/a where there is none."""
    most = max((rate for _, rate in rates if rate), default=1.0)
    body = []
    for index, (name, rate) in enumerate(rates):
        y = index * ROW
        body.append(text(LABEL - 6, y + 13, name, "end"))
        if rate is None:
            body.append(text(LABEL, y + 13, "n/a", kind="soft"))
            continue
        length = (WIDTH - LABEL - 46) * rate / most
        colour = "var(--ours)" if name.startswith("flowref") else "var(--peer)"
        body.append(
            f'<rect x="{LABEL}" y="{y + 3}" width="{length:.1f}" height="{ROW - 6}" fill="{colour}" rx="2"/>'
        )
        body.append(text(LABEL + length + 4, y + 13, told(rate), kind="soft"))
    return figure(title, body, len(rates) * ROW + 2)


def dots(title: str, ratios: Sequence[tuple[str, Value | None]]) -> str:
    """A dot per ratio with its quartiles, on a logarithmic axis around 1."""
    known = [value for _, value in ratios if value]
    reach = max([1.3, *(max(v.high, 1 / v.low) for v in known if v.low > 0)])

    def place(ratio: float) -> float:
        return LABEL + (WIDTH - LABEL - 40) * (0.5 + 0.5 * math.log(ratio) / math.log(reach))

    bottom = len(ratios) * ROW
    body = [
        f'<line x1="{place(1):.1f}" x2="{place(1):.1f}" y1="0" y2="{bottom}" stroke="var(--soft)" stroke-dasharray="3 3"/>'
    ]
    for tick in (1 / reach, 1.0, reach):
        body.append(text(place(tick), bottom + 14, f"{tick:.2g}", "middle", "soft"))
    for index, (name, value) in enumerate(ratios):
        y = index * ROW + 9
        body.append(text(LABEL - 6, y + 4, name, "end"))
        if value is None:
            body.append(text(LABEL, y + 4, "n/a", kind="soft"))
            continue
        colour = (
            "var(--good)" if value.high < 1 else "var(--bad)" if value.low > 1 else "var(--soft)"
        )
        body.append(
            f'<line x1="{place(value.low):.1f}" x2="{place(value.high):.1f}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="3"/>'
        )
        body.append(f'<circle cx="{place(value.value):.1f}" cy="{y}" r="4" fill="{colour}"/>')
        body.append(text(WIDTH - 2, y + 4, f"{value.value:.2f}", "end", "soft"))
    return figure(title, body, bottom + 20)


def lines(
    title: str,
    series: dict[str, list[tuple[float, float]]],
    log_x: bool = True,
    low: float | None = None,
    names: Sequence[str] = (),
    caption: str = "",
) -> str:
    """Curves, with a logarithmic axis below if asked for, or one from the first of the names of their
    places to the last; a name stands at the end of each curve.
    """
    points = [point for curve in series.values() for point in curve]
    if not points:
        return figure(title, [text(0, 14, "n/a", kind="soft")], 20)
    xs, ys = [math.log(x) if log_x else x for x, _ in points], [y for _, y in points]
    bottom, height = (min(ys) if low is None else low), 150
    top = max(*ys, bottom + 1e-9) * 1.05

    def at(x: float, y: float) -> tuple[float, float]:
        x = math.log(x) if log_x else x
        span = max(xs) - min(xs) or 1
        return LEFT + (RIGHT - LEFT) * (x - min(xs)) / span, height - (height - 12) * (
            y - bottom
        ) / (top - bottom)

    body = [f'<line x1="{LEFT}" x2="{RIGHT}" y1="{height}" y2="{height}" stroke="var(--line)"/>']
    body += [
        text(LEFT - 4, at(points[0][0], y)[1] + 4, told(y), "end", "soft")
        for y in (bottom, (bottom + top) / 2, top)
    ]
    if log_x:
        body += [
            text(at(x, 0)[0], height + 15, told(x), "middle", "soft")
            for x in sorted({x for x, _ in points})
        ]
    elif names:
        first, last = (int(end(xs)) for end in (min, max))
        for place, anchor in {first: "start", last: "end"}.items():
            body.append(text(at(place, 0)[0], height + 15, names[place], anchor, "soft"))
    taken: list[float] = []
    for index, (name, curve) in enumerate(series.items()):
        colour = COLOURS[index % len(COLOURS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in curve))
        body.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        body += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>'
            for x, y in (at(*point) for point in curve)
        ]
        x, y = at(*curve[-1])
        while any(abs(y - other) < 12 for other in taken):
            y += 4
        taken.append(y)
        body.append(
            f'<text x="{x + 6:.1f}" y="{y + 4:.1f}" style="fill:{colour}">{html.escape(name)}</text>'
        )
    return figure(title, body, max([height + 22, *(y + 10 for y in taken)]), caption)


def table(header: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> str:
    """A table, numbers to the right of the first columns, which are texts; empty without rows."""

    def cells(row: Sequence[str], tag: str) -> str:
        kinds = [""] * texts + [' class="n"'] * (len(row) - texts)
        return "".join(
            f"<{tag}{kind}>{html.escape(cell)}</{tag}>"
            for kind, cell in zip(kinds, row, strict=True)
        )

    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    if not body:
        return ""
    return f"<table><thead><tr>{cells(header, 'th')}</tr></thead><tbody>{body}</tbody></table>"


def grid(figures: Iterable[str]) -> str:
    """Pictures beside each other; empty where there are none."""
    shown = "".join(figures)
    return f'<div class="grid">{shown}</div>' if shown else ""
