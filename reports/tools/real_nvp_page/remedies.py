"""E10: what noise beside the data, a gate and random layers do about what lies between two modes."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from matplotlib.colors import Normalize

from experiments import pictures, truth, words
from experiments.experiment import Effort, Experiment, Row, Task, Trained, grouped, spread
from experiments.pictures import BLACK, BLUE, GREEN, PURPLE, RED
from flowref.training import runs
from flowref.training.bounds import MANY, log_density, seeded_layers
from flowref.training.data import Dataset
from flowref.training.families import FAMILIES
from flowref.training.flows import REAL_NVP
from flowref.training.loop import mean_nll
from flowref.training.plane import on_grid
from flowref.training.recipes import Recipe
from real_nvp_page.filament import DATA, HALF, MODEL

PLAIN, NOISE, GATE, RANDOM = "bijection", "noise beside the data", "gate", "random layers"
FLOWS = {PLAIN: REAL_NVP, NOISE: "augmented", GATE: "rad", RANDOM: "stochastic"}
COLORS = {PLAIN: RED, NOISE: GREEN, GATE: BLUE, RANDOM: PURPLE}
SEEDS, EPOCHS, SAMPLES = 3, 12, 50_000
# Latents for a point of the line through both modes: an average of weights that differ by orders of
# magnitude.
LATENTS, PLACES = 512, 201
BOX = (-5.0, 5.0, -2.6, 2.6)


def tasks(effort: Effort) -> list[Task]:
    """Each flow with each seed."""
    return [
        Task(
            group,
            seed,
            Recipe(
                DATA,
                seed=seed,
                flow=flow,
                model=MODEL if flow == REAL_NVP else dict(FAMILIES[flow][1]),
                epochs=effort.epochs(EPOCHS),
                batch=512,
                rate=5e-3,
                patience=1000,
            ),
        )
        for group, flow in FLOWS.items()
        for seed in effort.seeds(SEEDS)
    ]


@torch.no_grad()
def measure(task: Task, flow: Trained, dataset: Dataset, effort: Effort) -> Row:
    """The likelihood or its bound, the density along the line through both modes, and the mass of the
    strip between them and of the right half.
    """
    drawn = flow.sample(effort.count(SAMPLES), runs.seeded(task.seed, "strip"))
    line = torch.stack([torch.linspace(-4.5, 4.5, PLACES), torch.zeros(PLACES)], 1)
    exact, latents = copy.deepcopy(flow).double().eval(), effort.count(LATENTS)
    with seeded_layers(exact, runs.seeded(task.seed, "line")):
        along = log_density(exact, line.double(), latents)
    return {
        "nll": mean_nll(flow, dataset.test, None, runs.seeded(0), 1, MANY),
        "truth": float(-truth.log_density(DATA, dataset.test).mean()),
        "line": along.clamp(min=-1e4).tolist(),
        "log_middle": float(along[PLACES // 2]),
        "strip": float((drawn[:, 0].abs() < HALF).double().mean()),
        "right": float((drawn[:, 0] > 0).double().mean()),
    }


def conclude(rows: list[Row]) -> Row:
    """By flow, and the check of the bijection."""
    groups = {
        name: {
            "excess": spread([row["nll"] - row["truth"] for row in found]),
            "log_middle": spread([row["log_middle"] for row in found]),
            "strip": spread([row["strip"] for row in found]),
            "right": spread([row["right"] for row in found]),
        }
        for name, found in grouped(rows).items()
    }
    inside = math.erfc((3 - HALF) / 0.4 / 2**0.5) - math.erfc((3 + HALF) / 0.4 / 2**0.5)
    return {
        "groups": groups,
        "true": {
            "log_middle": float(truth.log_density(DATA, np.zeros((1, 2)))[0]),
            "strip": 0.5 * inside,
        },
        "checks": [
            {
                "what": "every flow is better than the best normal distribution would be",
                "met": all(row["nll"] - row["truth"] < 0.5 for row in rows),
            },
        ],
    }


@torch.no_grad()
def draw(results: Row, flow_of: Callable[[Row], Trained], out: Path, effort: Effort) -> None:
    """Densities and samples of the first seed, and the numbers of all."""
    found = grouped(results["runs"])
    corners = torch.tensor([[BOX[0], BOX[2]], [BOX[1], BOX[3]]], dtype=torch.float64)
    with pictures.panels(out / "E10.png", 3, len(found), (4.0, 2.7)) as axes:
        for column, (group, rows) in enumerate(found.items()):
            flow = flow_of(rows[0])
            exact = copy.deepcopy(flow).double()
            with seeded_layers(exact, runs.seeded("E10")):
                values = on_grid(exact, corners, effort.cells(200)).clamp(min=1e-30).log10().numpy()
            axes[0, column].imshow(
                values,
                extent=BOX,
                origin="lower",
                cmap="magma_r",
                norm=Normalize(-8, 0),
                interpolation="bilinear",
            )
            pictures.frame(axes[0, column], BOX, f"{group}: $\\log_{{10}}$ density")
            samples = flow.sample(effort.count(6000), runs.seeded(0, "plot")).numpy()
            pictures.scatter(axes[1, column], samples, COLORS[group])
            pictures.frame(axes[1, column], BOX, "samples, seed 0")
        line = np.linspace(-4.5, 4.5, PLACES)
        through, *others = axes[2]
        for group, rows in found.items():
            for index, row in enumerate(rows):
                label = group if index == 0 else None
                values = np.array(row["line"]) / math.log(10)
                through.plot(line, values, c=COLORS[group], lw=1.1, alpha=0.85, label=label)
        target = truth.log_density(DATA, np.stack([line, 0 * line], 1)) / math.log(10)
        through.plot(line, target, c=BLACK, ls="--", label="the truth")
        through.set(ylim=(-16, 1), title=r"$\log_{10}$ density at $x_2 = 0$", xlabel="$x_1$")
        through.legend(fontsize=7, loc="lower center", ncols=2)
        _numbers(others, found, results["true"]["strip"])


def _numbers(places: list[object], found: dict[str, list[Row]], strip: float) -> None:
    """A panel for each of three numbers, all seeds."""
    kinds = (
        ("strip", f"mass of $|x_1| < {HALF:g}$", strip),
        ("right", "share of the right mode", 0.5),
        ("excess", "NLL above the truth", 0.0),
    )
    for place, (kind, title, level) in zip(places, kinds, strict=True):
        axes: Trained = place
        for at, (group, rows) in enumerate(found.items()):
            values = [row["nll"] - row["truth"] if kind == "excess" else row[kind] for row in rows]
            values = [max(value, 1e-5) for value in values] if kind == "strip" else values
            pictures.dots(axes, at, values, COLORS[group], size=36, wide=0.4)
        axes.axhline(level, c=BLACK, ls="--", lw=1.2)
        axes.set(
            title=title,
            xlim=(-0.6, len(found) - 0.4),
            xticks=range(len(found)),
            xticklabels=[group.replace(" ", "\n", 1) for group in found],
            **({"yscale": "log"} if kind == "strip" else {}),
        )
        axes.tick_params(labelsize=7.5)
        axes.grid(axis="y")


def compared(results: Row) -> str:
    """Which remedies leave less between the modes than a bijection, in every seed."""
    plain = results["groups"][PLAIN]["strip"]["least"]
    less = [
        group
        for group, found in results["groups"].items()
        if group != PLAIN and found["strip"]["most"] < plain
    ]
    others = [group for group in results["groups"] if group not in (PLAIN, *less)]
    said = []
    if less:
        said.append(f"{words.listed(less)}, less in each seed than the bijection in any")
    if others:
        said.append(f"{words.listed(others)}, no less than the bijection in some seeds")
    return f"Measured of the mass between the modes: {'; '.join(said)}."


def section(results: Row) -> str:
    """What was measured."""
    true, groups, first = results["true"], results["groups"], results["runs"][0]
    lines = [
        [
            name,
            words.pm(found["excess"]),
            f"{found['log_middle']['mean']:.1f} ({found['log_middle']['least']:.1f} to "
            f"{found['log_middle']['most']:.1f})",
            f"{words.number(found['strip']['mean'], 5)} "
            f"({words.number(found['strip']['least'], 5)} to "
            f"{words.number(found['strip']['most'], 5)})",
            words.pm(found["right"]),
        ]
        for name, found in groups.items()
    ]
    lines.append(
        ["the truth", "0", f"{true['log_middle']:.1f}", words.number(true["strip"], 5), "0.500"]
    )
    head = [
        "",
        "NLL above the truth",
        "log-density in the middle",
        f"mass of the strip $\\vert x_1 \\vert < {HALF:g}$",
        "share of the right mode",
    ]
    layers = FAMILIES["stochastic"][1]
    return f"""The remedies that the first notes name for the filament of E9, on the same
target and with the same couplings: two entries of standard normal noise beside the data (augmented
flows), a first layer that cuts the plane in two and maps each part onto all of it, with a learned
gate (RAD), and {layers["layers"]} groups of {layers["steps"]} Langevin steps of learned energies
between the couplings (stochastic flows). Each is trained for {first["steps"]} steps with
{groups[PLAIN]["strip"]["n"]} seeds.

{words.table(head, lines)}

*Mean, and least to largest or deviation over seeds. Of flows that draw latents the NLL is an upper
bound, with {MANY} latents for each point, and the density in the middle a mean over {LATENTS}; the
mass of the strip is that of {SAMPLES} samples.*

![Above, densities and samples of a bijection, of a flow with noise beside the data, with a gate and
with random layers; below, densities along the line through both modes, and mass of the strip, share
of the right mode and likelihood of all seeds.](real-nvp/E10.png)

{compared(results)} The boundary of the gate stands where the data are divided, after they are
standardized: that is known here, and would have to be learned or guessed elsewhere. Noise and random
layers do not cut anything: the density between the modes stays above 0, and in the pictures a wide and
faint bridge stands for a narrow one. Other numbers of layers, steps and epochs were not tried.

{words.checks(results)}"""


EXPERIMENT = Experiment(
    "E10",
    "Noise, a gate and random layers against the filament",
    1,
    tasks,
    lambda task, effort: effort.data(DATA),
    measure,
    conclude,
    draw,
    section,
)
