"""E11: the families of flows on moons, beside Real NVP."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from experiments import pictures, truth, words
from experiments.experiment import Effort, Experiment, Row, Task, Trained, grouped, spread
from experiments.pictures import BLACK, BLUE, RED
from flowref.training import runs
from flowref.training.baselines import normal_nll
from flowref.training.bounds import MANY, seeded_layers
from flowref.training.data import Dataset
from flowref.training.families import FAMILIES
from flowref.training.flows import FLOWS, MATCHED, REAL_NVP
from flowref.training.loop import mean_nll
from flowref.training.recipes import Recipe

DATA, SEEDS, EPOCHS = "moons", 3, 4
MODEL: Row = {"depth": 6, "hidden": [64, 64]}
# A continuous flow takes hundreds of times what the others do: smaller nets, a coarser solver, and
# the same points in fewer steps.
OPTIONS: dict[str, Row] = {"cnf": {"hidden": [32, 32], "tolerance": 1e-3}}
BATCH = {"cnf": 2048}
BOX = (-1.4, 2.4, -0.9, 1.4)


def tasks(effort: Effort) -> list[Task]:
    """Each family with each seed."""
    return [
        Task(
            flow,
            seed,
            Recipe(
                DATA,
                seed=seed,
                flow=flow,
                model=MODEL if flow == REAL_NVP else {**FAMILIES[flow][1], **OPTIONS.get(flow, {})},
                epochs=effort.epochs(EPOCHS),
                batch=BATCH.get(flow, 512),
                rate=5e-3,
                patience=1000,
            ),
        )
        for flow in FLOWS
        if flow not in MATCHED
        for seed in effort.seeds(SEEDS)
    ]


@torch.no_grad()
def measure(task: Task, flow: Trained, dataset: Dataset, effort: Effort) -> Row:
    """On test points: the flow, the best normal distribution and the truth."""
    return {
        "nll": mean_nll(flow, dataset.test, None, runs.seeded(0), 1, MANY),
        "normal": normal_nll(dataset.train, dataset.test),
        "truth": float(-truth.log_density(DATA, dataset.test).mean()),
        "parameters": sum(parameter.numel() for parameter in flow.parameters()),
        "bound": bool(getattr(flow, "lower_bound", False)),
    }


def conclude(rows: list[Row]) -> Row:
    """By family, and the check."""
    groups = {
        name: {
            "nll": spread([row["nll"] for row in found]),
            "excess": spread([row["nll"] - row["truth"] for row in found]),
            "seconds": spread([row["seconds"] for row in found]),
            "parameters": found[0]["parameters"],
            "bound": found[0]["bound"],
        }
        for name, found in grouped(rows).items()
    }
    return {
        "groups": groups,
        "normal": rows[0]["normal"],
        "truth": rows[0]["truth"],
        "checks": [
            {
                "what": "the test value of every seed is below that of the best normal distribution",
                "met": all(row["nll"] < row["normal"] for row in rows),
            },
        ],
    }


@torch.no_grad()
def draw(results: Row, flow_of: Callable[[Row], Trained], out: Path, effort: Effort) -> None:
    """Density and samples of the first seed of each family, and the values of all seeds."""
    found = grouped(results["runs"])
    columns = (len(found) + 1) // 2
    with pictures.panels(out / "E11.png", 4, columns, (3.6, 2.5)) as axes:
        for index, (group, rows) in enumerate(found.items()):
            flow, (line, column) = flow_of(rows[0]), divmod(index, columns)
            with seeded_layers(flow, runs.seeded("E11")):
                pictures.density(axes[2 * line, column], flow, BOX, cells=effort.cells(200))
            samples = flow.sample(effort.count(3000), runs.seeded(0, "plot")).numpy()
            pictures.scatter(axes[2 * line + 1, column], samples, RED, 3)
            pictures.frame(axes[2 * line, column], BOX, f"{group}: density")
            pictures.frame(axes[2 * line + 1, column], BOX, "samples")
    draw_values(results, out)


def draw_values(results: Row, out: Path) -> None:
    """The test values of all seeds of each family."""
    found = grouped(results["runs"])
    with pictures.panels(out / "E11-values.svg", 1, 1, (7.5, 3.6)) as ((place,),):
        for at, rows in enumerate(found.values()):
            color = BLUE if rows[0]["bound"] else RED
            pictures.dots(place, at, [row["nll"] for row in rows], color, size=36, wide=0.4)
        for level, label in ((results["normal"], "best normal"), (results["truth"], "the truth")):
            place.axhline(level, c=BLACK, ls="--", lw=1.1)
            place.annotate(
                label,
                (len(found) - 0.5, level),
                xytext=(0, 3),
                textcoords="offset points",
                ha="right",
            )
        place.set(
            xlim=(-0.6, len(found) - 0.4),
            xticks=range(len(found)),
            xticklabels=list(found),
            ylabel="test NLL, nats (blue: an upper bound)",
        )
        place.tick_params(labelsize=8.5)
        place.grid(axis="y")


def section(results: Row) -> str:
    """What was measured."""
    groups, first = results["groups"], results["runs"][0]
    lines = [
        [
            f"{name}{' (bound)' if found['bound'] else ''}",
            words.pm(found["nll"]),
            words.pm(found["excess"]),
            str(found["parameters"]),
            f"{found['seconds']['mean']:.0f}",
        ]
        for name, found in groups.items()
    ]
    best = min(groups, key=lambda name: float(groups[name]["nll"]["mean"]))
    head = ["flow", "test NLL (nats)", "above the truth by", "parameters", "seconds"]
    return f"""The first notes announce plots of splines, autoregressive, residual, augmented,
stochastic and continuous flows, and have none. Here every flow of `flowref fit moons --flow` sees the
same points {EPOCHS} times ({first["steps"]} steps of {first["recipe"]["batch"]}; the continuous flow
takes a quarter of the steps, four times as large), with {groups[REAL_NVP]["nll"]["n"]} seeds: short
trainings, which tell how a family begins and not where it ends.

{words.table(head, lines)}

*Means and standard deviations over seeds, on 10,000 test points; the truth is {results["truth"]:.3f},
the best normal distribution {results["normal"]:.3f}. A bound is that of {MANY} latents for each
point. Seconds are of training, on one core of a busy machine.*

![Density and samples of each family after these trainings.](real-nvp/E11.png)

![Test values of all seeds between those of the truth and of the best normal
distribution.](real-nvp/E11-values.svg)

After so many steps {best} has the best mean. What is bounded in its slope or follows a field, residual
and continuous flows, has then come to little more than a normal distribution; why, and after how many
steps more, was not looked into.

{words.checks(results)}"""


EXPERIMENT = Experiment(
    "E11",
    "Eight families on moons",
    1,
    tasks,
    lambda task, effort: effort.data(DATA),
    measure,
    conclude,
    draw,
    section,
)
