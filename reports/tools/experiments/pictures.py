"""What the pictures share: panels in a style, points in the plane, densities, and rows of dots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray

import themed_svg
from flowref.reference import Flow
from flowref.training.plane import displayed_density, on_grid

# Okabe and Ito's colors, which color-blind readers tell apart.
BLUE, RED, GREEN, PURPLE, GRAY, BLACK = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#AA4499",
    "#777777",
    "#222222",
)
STYLE: Any = {
    "font.size": 10.5,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "figure.constrained_layout.w_pad": 0.1,
    "figure.constrained_layout.h_pad": 0.1,
    "savefig.dpi": 130,
}
Box = tuple[float, float, float, float]


@contextmanager
def panels(
    path: Path, rows: int, columns: int, size: tuple[float, float], **options: Any
) -> Iterator[Any]:
    """Axes in rows and columns, saved afterwards, without the version of the program that drew them; densities
    and points as PNG.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure.subplots(rows, columns, squeeze=False, **options)
        if path.suffix == ".svg":
            themed_svg.save(figure, path)
        else:
            figure.savefig(path, metadata={"Software": None}, bbox_inches="tight", pad_inches=0.12)


def frame(axes: Any, box: Box, title: str = "") -> None:
    """A section ``(left, right, bottom, top)`` of the plane with equal units."""
    axes.set(xlim=box[:2], ylim=box[2:], aspect="equal", title=title)
    axes.tick_params(labelsize=8)


def scatter(axes: Any, points: NDArray[Any], color: str, size: float = 4) -> None:
    """Points in the plane."""
    axes.scatter(*points.T, s=size, c=color, alpha=0.55, linewidths=0)


def density(axes: Any, flow: Flow, box: Box, top: float | None = None, cells: int = 300) -> None:
    """The density over a section of the plane, dark where it is high."""
    corners = torch.tensor([[box[0], box[2]], [box[1], box[3]]])
    values = displayed_density(on_grid(flow, corners, cells)).numpy()
    norm = PowerNorm(0.5, 0, top if top is not None else float(np.quantile(values, 0.998)))
    axes.imshow(
        values,
        extent=box,
        origin="lower",
        cmap="magma_r",
        norm=norm,
        interpolation="bilinear",
        aspect="equal",
    )


def dots(
    axes: Any,
    at: float,
    values: Sequence[float],
    color: str,
    marker: str = "o",
    size: float = 26,
    wide: float = 0.3,
) -> None:
    """Values beside each other about a place on the horizontal axis."""
    shifts = (np.arange(len(values)) - (len(values) - 1) / 2) * (wide / max(len(values) - 1, 1))
    axes.scatter(
        at + shifts,
        values,
        s=size,
        c=color,
        marker=marker,
        linewidths=0.4,
        edgecolors="white",
        zorder=3,
    )


def interval(axes: Any, at: float, mean: float, low: float, high: float, color: str) -> None:
    """A mean and its interval on a line of a chart that lies on its side."""
    axes.plot([low, high], [at, at], c=color, lw=2.2, solid_capstyle="butt", zorder=2)
    axes.plot([mean], [at], "D", c=color, ms=6, zorder=4, mec="white", mew=0.6)
