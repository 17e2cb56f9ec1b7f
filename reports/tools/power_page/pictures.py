"""The pictures of the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from flowref.training.plots import DATA, MODEL, QUIET
from themed_svg import WIDTH, panels

# Inches that a row takes, and a picture at least.
ROW, LEAST = 0.09, 3.0


def kills(path: Path, matrix: dict[str, Any]) -> None:
    """Laws by planted defects, a mark where a law is violated; the law that a bug was planted for has the stronger color."""
    laws = [one["law"] for one in matrix["laws"] if one["kills"]]
    number = {law: row for row, law in enumerate(laws)}
    defects = sorted(matrix["defects"], key=lambda one: (one["kind"], one["laws"], one["spec"]))
    own: list[tuple[int, int]] = []
    other: list[tuple[int, int]] = []
    for column, defect in enumerate(defects):
        for law in defect["killers"]:
            (own if law in defect["laws"] else other).append((column, number[law]))
    height = max(LEAST, ROW * len(laws))
    with panels(path, 1, 1, (WIDTH, height)) as ((axes,),):
        for points, color, label in (
            (other, QUIET, "violates another law as well"),
            (own, MODEL, "violates the law that it was planted for"),
        ):
            if points:
                x, y = np.array(points).T
                # Thousands of marks: as pixels, which a page shows at once.
                axes.scatter(x, y, s=5, marker="s", c=color, linewidths=0, rasterized=True)
                axes.scatter([], [], s=5, marker="s", c=color, label=label)
        _families(axes, laws)
        split = sum(defect["kind"] == "mutant" for defect in defects)
        axes.axvline(split - 0.5, color="#555555", lw=0.8)
        axes.text(split / 2, -3, f"{split} mutants", ha="center", fontsize=9)
        axes.text(
            (split + len(defects)) / 2,
            -3,
            f"{len(defects) - split} specimens",
            ha="center",
            fontsize=9,
        )
        axes.set_xlim(-1, len(defects))
        axes.set_ylim(len(laws), -5)
        axes.set_xlabel("planted defects")
        axes.set_xticks([])
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=2, markerscale=3)


def _families(axes: Any, laws: list[str]) -> None:
    """Name the families of rows, and draw lines between them."""
    families = [law.partition("/")[0] for law in laws]
    starts = [row for row in range(len(laws)) if row == 0 or families[row] != families[row - 1]]
    ends = [*starts[1:], len(laws)]
    axes.set_yticks([(start + end - 1) / 2 for start, end in zip(starts, ends, strict=True)])
    axes.set_yticklabels([families[start] for start in starts], fontsize=9)
    axes.tick_params(length=0)
    for start in starts[1:]:
        axes.axhline(start - 0.5, color="#dddddd", lw=0.6, zorder=0)


def sizes(path: Path, thresholds: list[dict[str, Any]]) -> None:
    """The smallest size of each mutant that is still caught, on a logarithmic axis."""
    shown = [one for one in thresholds if one["smallest"] is not None]
    shown.sort(key=lambda one: one["smallest"])
    rows = np.arange(len(shown))
    with panels(path, 1, 1, (WIDTH, max(LEAST, 0.16 * len(shown)))) as ((axes,),):
        small = [one["smallest"] for one in shown]
        declared = [min(one["declared"]) for one in shown]
        axes.hlines(rows, small, declared, color="#cccccc", lw=1, zorder=0)
        axes.scatter(declared, rows, s=12, color=QUIET, label="must be caught")
        axes.scatter(small, rows, s=14, color=DATA, label="smallest that is caught")
        axes.set_yticks(rows)
        axes.set_yticklabels([one["mutant"] for one in shown], fontsize=8.5)
        axes.set_xscale("log")
        axes.set_xlabel("size of the defect")
        axes.set_ylim(-1, len(shown))
        axes.legend(loc="lower right")
