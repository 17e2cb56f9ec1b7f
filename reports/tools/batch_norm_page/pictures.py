"""The pictures of the page, each drawn from numbers that are computed here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

import themed_svg
from batch_norm_page.ideas import centering, scaling
from batch_norm_page.numerics import variance_error
from batch_norm_page.running import fresh_gap, population_gap

# Okabe and Ito's colors, which color-blind readers tell apart; line styles and markers say the same
# again.
BLUE, ORANGE, GREEN, BLACK, GRAY, DARK = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#000000",
    "#777777",
    "#555555",
)
STYLE: Any = {
    "figure.figsize": (7.2, 3.9),
    "figure.dpi": 160,
    "figure.constrained_layout.use": True,
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "legend.frameon": False,
    "xtick.minor.visible": False,
}


def save(axes: Axes, folder: Path, name: str) -> None:
    """Write a picture."""
    figure = axes.figure
    assert isinstance(figure, Figure)
    themed_svg.save(figure, folder / f"{name}.svg")
    plt.close("all")


def variance(folder: Path) -> None:
    """The relative error of three ways to compute a variance, against |mean|/std."""
    ratios = np.logspace(0, 6, 25)
    found = [variance_error(float(ratio)) for ratio in ratios]
    _, axes = plt.subplots()
    unit = 2.0**-24
    axes.loglog(ratios, unit * ratios**2, color=GRAY, linestyle=":", linewidth=1.4)
    axes.axhline(1, color=GRAY, linewidth=0.8)
    for name, color, style, label in (
        ("one", ORANGE, "o-", r"$E[x^2] - E[x]^2$, one pass"),
        ("two", BLUE, "s--", r"$E[(x - E[x])^2]$, two passes"),
        ("reference", GREEN, "^-.", "two passes, mean corrected (reference)"),
    ):
        errors = np.array([row[name][0] for row in found])
        axes.loglog(ratios, np.maximum(errors, unit / 4), style, color=color, label=label)
        spoiled = np.array([row[name][1] for row in found])
        if spoiled.any():
            first = ratios[spoiled][0]
            axes.vlines(first, 1e-8, 1, color=color, linewidth=0.9, linestyle=(0, (4, 3)))
            axes.annotate(
                "from here on some\nvariances are ≤ 0",
                (first, 3e-4),
                xytext=(7, 0),
                textcoords="offset points",
                color=color,
                fontsize=9.5,
                va="bottom",
            )
    axes.annotate(
        r"$u\,(\mu/\sigma)^2$",
        (60, unit * 60**2),
        xytext=(8, -12),
        textcoords="offset points",
        color=DARK,
    )
    axes.annotate(
        "no digit is right",
        (1.1, 1),
        xytext=(0, 4),
        textcoords="offset points",
        color=DARK,
        fontsize=9.5,
    )
    axes.set(
        xlabel=r"$|\mu| / \sigma$ of the input",
        ylabel="relative error of the variance",
        xlim=(1, 1e6),
        ylim=(1e-8, 1e6),
    )
    axes.legend(loc="upper left", bbox_to_anchor=(0, 1.02))
    save(axes, folder, "variance")


def bias(folder: Path) -> None:
    """The bias along gradient descent, with and without the gradient through the mean."""
    steps = 200
    (away, losses), (still, others) = centering(steps), centering(steps, through=True)
    figure, (left, right) = plt.subplots(1, 2, sharex=True)
    for axes, cut, true in ((left, away, still), (right, losses, others)):
        axes.plot(cut, color=ORANGE, label="gradient stopped at the mean")
        axes.plot(true, color=BLUE, linestyle="--", label="gradient through the mean")
        axes.set(xlabel="step of gradient descent", xlim=(0, steps))
    left.set(ylabel="bias $b$ (standard deviations of $u$)")
    right.set(ylabel="loss $L$", ylim=(0, 2.5))
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    save(left, folder, "bias")


def gap(folder: Path) -> None:
    """The difference between train and eval mode on new batches, against the momentum."""
    n, counts = 32, (10, 100, 1000)
    momenta = [float(value) for value in np.logspace(-4, 0, 17)]
    found = fresh_gap(momenta, counts, n)
    _, axes = plt.subplots()
    for count, color, style in zip(
        counts, (ORANGE, GREEN, BLUE), ("^-.", "s--", "o-"), strict=True
    ):
        axes.loglog(momenta, found[count], style, color=color, label=f"after {count} batches")
    floor = population_gap(n)
    axes.axhline(floor, color=BLACK, linewidth=1.2, linestyle=":")
    axes.annotate(
        "true mean and variance in eval mode",
        (1.15e-4, floor),
        xytext=(0, -26),
        textcoords="offset points",
        fontsize=9.5,
    )
    axes.set(
        xlabel="momentum (torch's: the fraction with which a batch enters)",
        ylim=(0.1, 4),
        xlim=(1e-4, 1),
        ylabel="train minus eval output, root mean square\n(standard deviations)",
    )
    axes.set_yticks([0.1, 0.2, 0.5, 1, 2, 4], ["0.1", "0.2", "0.5", "1", "2", "4"])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.legend(loc="upper right")
    save(axes, folder, "gap")


def scale(folder: Path) -> None:
    """How far the output moves when the input is multiplied by a."""
    factors = np.logspace(-6, 2, 32)  # not 1, where both differences are 0
    found = np.array([scaling(float(a)) for a in factors])
    _, axes = plt.subplots()
    axes.loglog(
        factors, found[:, 0], "o-", color=ORANGE, label=r"$BN_\epsilon(ax)$ from $BN_\epsilon(x)$"
    )
    axes.loglog(
        factors,
        np.where(found[:, 1] > 0, found[:, 1], np.nan),
        "s--",
        color=BLUE,
        label=r"$BN_\epsilon(ax)$ from $BN_{\epsilon/a^2}(x)$",
    )
    axes.axvline(1e-5**0.5, color=GRAY, linewidth=0.9)
    axes.annotate(
        r"$a\sigma = \sqrt{\epsilon}$",
        (1e-5**0.5, 1e-10),
        xytext=(5, 0),
        textcoords="offset points",
        color=DARK,
    )
    axes.set(
        xlabel="scale $a$ of the input ($\\sigma = 1$, $\\epsilon = 10^{-5}$)",
        xlim=(1e-6, 1e2),
        ylim=(1e-20, 1e2),
        ylabel="largest difference of outputs\n(standard deviations)",
    )
    axes.legend(loc="center left", bbox_to_anchor=(0, 0.35))
    save(axes, folder, "scale")


def draw(folder: Path) -> None:
    """All pictures."""
    folder.mkdir(exist_ok=True)
    with plt.rc_context(STYLE):
        for picture in (variance, bias, gap, scale):
            picture(folder)
