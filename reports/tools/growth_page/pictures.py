"""The pictures: along each axis seconds, memory and the share of laws judged, a line per family."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from growth_page.grid import FAMILIES, Point
from growth_page.points import Result
from themed_svg import WIDTH, panels

# Okabe and Ito's colors, which color-blind readers tell apart.
COLORS = dict(zip(FAMILIES, ("#0072B2", "#D55E00", "#009E73", "#AA4499"), strict=True))
MARKERS = dict(zip(FAMILIES, "osD^", strict=True))
MEBIBYTES, SECONDS = (256, 512, 1024, 2048, 4096), (1, 3, 10, 30, 100, 300, 1000)
# How far apart values are at least, as a ratio, to have each a number.
APART = 1.9
LABELS = {
    "features": "features",
    "layers": "layers",
    "width": "units of a conditioner's layer",
    "batch": "rows in a batch",
}


def draw(path: Path, axis: str, points: Mapping[Point, Result]) -> None:
    """The three panels of an axis. What a budget cut off is hollow: it would have taken longer."""
    with panels(path, 1, 3, (WIDTH / 3, 3.0)) as ((seconds, memory, share),):
        for family in FAMILIES:
            own = sorted(
                (point.value, result)
                for point, result in points.items()
                if point.family == family and point.axis == axis
            )
            if not own:
                continue
            _line(seconds, family, own, lambda result: result.seconds)
            _line(memory, family, own, lambda result: result.peak / 2**20)
            _line(share, family, own, lambda result: 100 * result.share)
        seconds.set_title("CPU seconds, all laws")
        seconds.set_yscale("log")
        seconds.set_yticks(SECONDS, [f"{value:,}" for value in SECONDS])
        memory.set_title("memory at its highest, MiB")
        memory.set_yscale("log", base=2)
        memory.set_yticks(MEBIBYTES, [f"{value:,}" for value in MEBIBYTES])
        share.set_title("laws judged of those that apply, %")
        share.set_ylim(0, 103)
        values = _ticks({point.value for point in points if point.axis == axis})
        for axes in (seconds, memory, share):
            axes.set_xscale("log", base=2)
            axes.set_xlabel(LABELS[axis])
            axes.set_xticks(values, [f"{value:,}" for value in values], rotation=45, fontsize=8.5)
            axes.minorticks_off()
            axes.grid(color="#e4e4e4", lw=0.6)
            axes.set_axisbelow(True)
        seconds.legend(fontsize=8.5)


def _ticks(values: set[int]) -> list[int]:
    """The values that are numbered: all from the left that are far enough from the last."""
    shown: list[int] = []
    for value in sorted(values):
        if not shown or value >= APART * shown[-1]:
            shown.append(value)
    return shown


def _line(axes: Any, family: str, own: list[tuple[int, Result]], height: Any) -> None:
    color, marker = COLORS[family], MARKERS[family]
    x = [value for value, _ in own]
    y = [height(result) for _, result in own]
    axes.plot(x, y, color=color, lw=1.6, label=family)
    for (value, result), top in zip(own, y, strict=True):
        face = color if result.whole and not result.broken else "none"
        axes.plot([value], [top], marker, color=color, mfc=face, ms=5)
