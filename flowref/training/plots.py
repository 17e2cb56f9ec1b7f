"""Plots of a run: samples next to data, density, latents, and training curves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from flowref.reference import Dequantize
from flowref.training import runs
from flowref.training.bounds import AnyFlow, DrawnFlow, seeded_layers
from flowref.training.data import Dataset
from flowref.training.evaluation import Summary
from flowref.training.extras import package
from flowref.training.models import tensor
from flowref.training.plane import box_of, displayed_density, is_solved, on_grid
from flowref.training.recipes import Recipe

DATA, MODEL, QUIET = "#1f5fa8", "#d1491b", "#8a8a8a"
SHOWN = 2000
STYLE = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "figure.constrained_layout.w_pad": 0.12,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "legend.frameon": False,
    "savefig.dpi": 130,
}
LABEL: dict[str, Any] = {
    "ha": "center",
    "va": "center",
    "fontsize": 8,
    "bbox": {"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.85},
}
Array = NDArray[Any]


@contextmanager
def figure(path: Path, columns: int = 1, size: tuple[float, float] = (5.0, 4.4)) -> Iterator[Any]:
    """Axes in a row, saved as a PNG afterwards; needs no display and leaves matplotlib's settings
    unchanged.
    """
    package("matplotlib").use("Agg", force=False)
    with package("matplotlib").rc_context(STYLE):
        Figure = package("matplotlib.figure").Figure
        canvas = Figure(figsize=(size[0] * columns, size[1]), layout="constrained")
        package("matplotlib.backends.backend_agg").FigureCanvasAgg(canvas)
        yield canvas.subplots(1, columns, squeeze=False)[0]
        temporary = path.with_name(f".{path.name}")
        canvas.savefig(temporary, format="png", bbox_inches="tight", pad_inches=0.15)
        temporary.replace(path)


def draw_plots(folder: Path, recipe: Recipe, dataset: Dataset, summary: Summary) -> list[Path]:
    """Draws all plots of a finished run; returns their paths."""
    flow = runs.load(str(folder))
    names = {name: folder / f"{name}.png" for name in ("samples", "latents", "training", "density")}
    training(names["training"], runs.metrics(folder), dataset, summary)
    if dataset.levels is not None:
        del names["density"]
        plot_images(names["samples"], flow, dataset, recipe.seed)
        image_latents(names["latents"], flow, dataset, recipe.seed)
        return list(names.values())
    plot_points(names["samples"], flow, dataset, recipe.seed)
    plot_latents(names["latents"], flow, dataset)
    density(names["density"], flow, dataset)
    return list(names.values())


def panel(box: Array) -> tuple[float, float]:
    """The size of a panel, in inches, for a box ``(2, 2)`` of the plane with equal units."""
    width, height = (box[1] - box[0]).tolist()
    return 4.6 + 0.6, min(max(4.6 * height / width, 2.6), 6.5) + 1.0


def direction_hues(values: Array) -> Array:
    """Colors ``(n, 3)`` of points ``(n, 2)`` by their direction from the mean."""
    turns = np.arctan2(*(values - values.mean(0)).T[::-1]) / (2 * np.pi) % 1
    hues: Array = package("matplotlib.colors").hsv_to_rgb(
        np.stack([turns, 0 * turns + 0.75, 0 * turns + 0.82], -1)
    )
    return hues


def equal_unit_axes(axes: Any, box: Array) -> None:
    """Sets the limits of axes to a box, with equal units."""
    axes.set(xlim=box[:, 0], ylim=box[:, 1], aspect="equal", xlabel="$x_1$", ylabel="$x_2$")


def plot_points(path: Path, flow: AnyFlow, dataset: Dataset, seed: int) -> None:
    """Test points next to as many samples."""
    seen = dataset.test[:SHOWN]
    drawn = flow.sample(len(seen), runs.seeded(seed, "plot")).numpy()
    box = box_of(torch.as_tensor(seen), 0.12).numpy()
    with figure(path, 2, panel(box)) as (left, right):
        for axes, values, color, title in (
            (left, seen, DATA, f"{dataset.name}: test points"),
            (right, drawn, MODEL, "samples of the flow"),
        ):
            axes.scatter(*values.T, s=5, c=color, alpha=0.6, linewidths=0)
            axes.set_title(title)
            equal_unit_axes(axes, box)


def density(path: Path, flow: AnyFlow, dataset: Dataset) -> None:
    """The density over the plane, with some test points."""
    box = box_of(torch.as_tensor(dataset.test, dtype=torch.float32), 0.12)
    coarse = is_solved(flow) or (isinstance(flow, DrawnFlow) and flow.lower_bound)
    with seeded_layers(flow, runs.seeded("density")):
        values = displayed_density(on_grid(flow, box, 300 if coarse else 600)).numpy()
    width, height = panel(box.numpy())
    with figure(path, 1, (1.35 * width, 1.25 * height)) as (axes,):
        norm = package("matplotlib.colors").PowerNorm(0.5, 0, float(np.quantile(values, 0.999)))
        extent = (*box[:, 0].tolist(), *box[:, 1].tolist())
        picture = axes.imshow(
            values, extent=extent, origin="lower", cmap="magma", norm=norm, interpolation="bilinear"
        )
        axes.scatter(*dataset.test[:400].T, s=3, c="white", alpha=0.6, linewidths=0)
        bar = axes.inset_axes((1.03, 0.0, 0.03, 1.0))
        axes.figure.colorbar(picture, cax=bar, label="density, on a scale of its square root")
        axes.set_title(f"{dataset.name}: density of the flow, and 400 test points")
        equal_unit_axes(axes, box.numpy())


@torch.no_grad()
def plot_latents(path: Path, flow: AnyFlow, dataset: Dataset) -> None:
    """Test points and their latents, which should be standard normal; the first two latents if
    there are more.
    """
    seen = dataset.test[:SHOWN]
    with seeded_layers(flow, runs.seeded("latents")):
        found = flow(tensor(dataset.test))[0][:, :2]
    z, norms = found[:SHOWN].numpy(), found.square().sum(1).sqrt().numpy()
    shades, box = direction_hues(seen), box_of(torch.as_tensor(seen), 0.12).numpy()
    limit = max(3.6, min(1.05 * float(np.abs(z).max()), 5.0))
    sizes = panel(box), panel(np.array([[-limit, -limit], [limit, limit]]))
    with figure(path, 2, (5.2, max(height for _, height in sizes))) as (left, right):
        left.scatter(*seen.T, s=5, c=shades, linewidths=0)
        left.set_title(f"{dataset.name}: test points, colored by direction")
        equal_unit_axes(left, box)
        right.scatter(*z.T, s=5, c=shades, linewidths=0)
        for radius in (1, 2, 3):
            inside, ideal = (norms < radius).mean(), 1 - math.exp(-(radius**2) / 2)
            angle = np.linspace(0, 2 * np.pi, 200)
            right.plot(radius * np.cos(angle), radius * np.sin(angle), c="black", lw=0.9)
            right.annotate(f"{100 * inside:.1f} % ({100 * ideal:.1f} %)", (0, -radius), **LABEL)
        right.set_title("their latents: share inside each circle (of a normal)")
        right.set(
            xlim=(-limit, limit),
            ylim=(-limit, limit),
            aspect="equal",
            xlabel="$z_1$",
            ylabel="$z_2$",
        )


def training(path: Path, rows: list[dict[str, Any]], dataset: Dataset, summary: Summary) -> None:
    """Training and validation values by epoch, with the baselines."""
    unit = 1.0 if dataset.levels is None else 1 / (dataset.dims * math.log(2))
    epochs = [row["epoch"] for row in rows]
    lines = {part: [unit * row[f"{part}_nll"] for row in rows] for part in ("train", "validation")}
    with figure(path, 1, (6.4, 4.2)) as (axes,):
        axes.plot(epochs, lines["train"], c=DATA, lw=1.3, label="training, in train mode")
        axes.plot(epochs, lines["validation"], c=MODEL, lw=1.3, label="validation")
        for name, value in summary.baselines.items():
            axes.axhline(value, c=QUIET, lw=0.9, ls="--")
            axes.annotate(
                name,
                (1, value),
                xycoords=("axes fraction", "data"),
                ha="right",
                va="bottom",
                color=QUIET,
                fontsize=8,
            )
        best = lines["validation"][summary.best_epoch - 1]
        label = f"best: {best:.3f} in epoch {summary.best_epoch}"
        axes.scatter([summary.best_epoch], [best], s=32, c=MODEL, zorder=3, label=label)
        everything = [
            *lines["train"][1:],
            *lines["validation"][1:],
            best,
            *summary.baselines.values(),
        ]
        low, high = (
            min(everything),
            max(max(summary.baselines.values()), float(np.quantile(everything, 0.97))),
        )
        axes.set_ylim(low - 0.06 * (high - low), high + 0.1 * (high - low))
        unit_name = "nats" if dataset.levels is None else "bits per dimension"
        axes.set(
            xlabel="epoch",
            ylabel=f"negative log-likelihood, {unit_name}",
            title=f"{dataset.name}: training",
        )
        axes.legend(loc="center right", fontsize=9)


def grid(events: Array, columns: int, levels: int) -> Array:
    """Images ``(n, C, H, W)`` in rows, one pixel apart, as values from 0 to 1 ``(height, width,
    C)``.
    """
    count, channels, height, width = events.shape
    lines = math.ceil(count / columns)
    sheet = np.full((lines * (height + 1) + 1, columns * (width + 1) + 1, channels), 0.5)
    for index, event in enumerate(events):
        line, column = divmod(index, columns)
        y, x = line * (height + 1) + 1, column * (width + 1) + 1
        sheet[y : y + height, x : x + width] = event.transpose(1, 2, 0) / (levels - 1)
    return sheet


def show(axes: Any, events: Array, levels: int, title: str) -> None:
    """A roughly square grid of images ``(n, C, H, W)``; one channel is drawn as ink on paper."""
    sheet = grid(events, math.ceil(math.sqrt(len(events))), levels)
    gray = sheet.shape[-1] == 1
    axes.imshow(
        sheet[..., 0] if gray else sheet, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest"
    )
    axes.set_axis_off()
    axes.set_title(title)


def plot_images(path: Path, flow: AnyFlow, dataset: Dataset, seed: int) -> None:
    """Test images next to as many random samples."""
    assert dataset.levels is not None
    count = min(100 if dataset.dims <= 784 else 64, len(dataset.test))
    drawn = (
        Dequantize(dataset.levels).inverse(flow.sample(count, runs.seeded(seed, "plot")))[0].numpy()
    )
    with figure(path, 2, (5.0, 5.2)) as (left, right):
        show(left, dataset.test[:count], dataset.levels, f"{dataset.name}: test images")
        show(right, drawn, dataset.levels, "samples of the flow, not chosen")


@torch.no_grad()
def image_latents(path: Path, flow: AnyFlow, dataset: Dataset, seed: int) -> None:
    """All entries of the latents of test images against the normal density, and their squared
    norms against chi squared.
    """
    assert dataset.levels is not None
    x = Dequantize(dataset.levels)(
        tensor(dataset.test[:SHOWN]), generator=runs.seeded(seed, "latents")
    )[0]
    z = flow(x)[0].numpy()
    with figure(path, 2, (5.2, 4.0)) as (left, right):
        at = np.linspace(-4.5, 4.5, 300)
        left.hist(
            z.ravel(),
            bins=np.linspace(-4.5, 4.5, 61),
            density=True,
            color=MODEL,
            alpha=0.45,
            label="test images",
        )
        left.plot(
            at,
            np.exp(-(at**2) / 2) / math.sqrt(2 * math.pi),
            c="black",
            lw=1.3,
            label="standard normal",
        )
        left.set(
            xlabel="entry of the latents",
            ylabel="density",
            title=f"{dataset.name}: all entries of the latents",
        )
        left.legend(fontsize=9)
        norms = (z**2).sum(1)
        d = z.shape[1]
        top = max(float(np.quantile(norms, 0.99)), d + 6 * math.sqrt(2 * d))
        at = np.linspace(max(d - 6 * math.sqrt(2 * d), 1e-9), top, 300)
        logs = (d / 2 - 1) * np.log(at) - at / 2 - (d / 2) * math.log(2) - math.lgamma(d / 2)
        right.hist(norms, bins=np.linspace(0.9 * min(norms.min(), at[0]), top, 41), density=True, color=MODEL, alpha=0.45,
                   label="test images")  # fmt: skip
        right.plot(at, np.exp(logs), c="black", lw=1.3, label=f"$\\chi^2$ with {d} degrees")
        right.set(
            xlabel="squared norm of the latents", ylabel="density", title="one value for each image"
        )
        right.legend(fontsize=9)
