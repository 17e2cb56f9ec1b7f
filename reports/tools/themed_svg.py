"""Pictures as SVG whose ink is the color of the text around them, drawn for the width at which pages show them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

# Inches of a page's column; type of 9 points is 12 pixels high there.
WIDTH = 9.0
STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
}
# Ink, and grays that are read on light and on dark paper.
INK = {"#000000": "currentColor", "#222222": "currentColor", "#262626": "currentColor"}
GRAYS = {
    "#dddddd": "rgb(128 128 128 / 30%)", "#e4e4e4": "rgb(128 128 128 / 25%)", "#cccccc": "rgb(128 128 128 / 45%)",
    "#ffffff": "none", "#555555": "#8a8a8a", "#777777": "#8a8a8a",
}  # fmt: skip
# Where an SVG is a file of its own, it follows the theme of the system.
OWN = "<style>svg{color:#222}@media(prefers-color-scheme:dark){svg{color:#ddd}}</style>"


@contextmanager
def panels(
    path: Path,
    rows: int,
    columns: int,
    size: tuple[float, float],
    style: Mapping[str, Any] = STYLE,
    **options: Any,
) -> Iterator[Any]:
    """Axes in rows and columns, saved afterwards; ``size``: of each, in inches."""
    with matplotlib.rc_context(dict(style)):
        figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure.subplots(rows, columns, squeeze=False, **options)
        save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """Write a figure so that the file depends on what is drawn alone."""
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": path.stem}):
        metadata: Any = {"Date": None, "Creator": None, "Format": None, "Type": None}
        figure.savefig(
            path,
            format="svg",
            metadata=metadata,
            bbox_inches="tight",
            pad_inches=0.1,
            transparent=True,
            dpi=200,
        )
    path.write_text(themed(path.read_text(encoding="utf-8"), path.stem), encoding="utf-8")


def themed(text: str, name: str) -> str:
    """The text of an SVG in the colors of a theme; ids begin with its name, so that a page may hold several."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    # What has no color is black unless it is said to be the text's.
    text = text.replace("<svg ", '<svg fill="currentColor" stroke-linejoin="round" ', 1)
    text = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>\s*", "", text, flags=re.DOTALL)
    for color, ours in {**INK, **GRAYS}.items():
        text = text.replace(color, ours)
    text = re.sub(r"font: (?:[\w.]+ )*([\d.]+px)[^;\"]*", r"font: \1 system-ui, sans-serif", text)
    text = re.sub(r'(\sid="|url\(#|href="#)', rf"\g<1>{name}-", text)
    return re.sub(r"(<svg [^>]*>)", rf"\1{OWN}", text, count=1)
