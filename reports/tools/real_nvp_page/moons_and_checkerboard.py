"""E4: the model of the first notes on moons and on a checkerboard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from experiments import pictures, truth, words
from experiments.experiment import Effort, Experiment, Row, Task, grouped, spread
from experiments.pictures import BLACK, BLUE, GRAY, RED
from flowref.reference import Flow
from flowref.training import runs
from flowref.training.baselines import normal_nll
from flowref.training.data import Dataset
from flowref.training.loop import mean_nll
from flowref.training.recipes import Recipe

MODEL = {"depth": 6, "hidden": [64], "norm": "batch", "momentum": 0.1}
EPOCHS = {"moons": 30, "checkerboard": 30}
SEEDS, ACCURACY = 5, 1e-3
BOX = {"moons": (-1.4, 2.4, -1.65, 2.15), "checkerboard": (-5.0, 5.0, -5.0, 5.0)}


def tasks(effort: Effort) -> list[Task]:
    """Each data set with each seed."""
    return [
        Task(
            name,
            seed,
            Recipe(
                name,
                seed=seed,
                model=MODEL,
                epochs=effort.epochs(epochs),
                batch=512,
                rate=5e-3,
                patience=1000,
            ),
        )
        for name, epochs in EPOCHS.items()
        for seed in effort.seeds(SEEDS)
    ]


def measure(task: Task, flow: Flow | None, dataset: Dataset, effort: Effort) -> Row:
    """On test points: the flow, the normal distribution and the truth; and the integral of the
    density.
    """
    assert flow is not None
    return {
        "nll": mean_nll(flow, dataset.test, None, runs.seeded(0)),
        "normal": normal_nll(dataset.train, dataset.test),
        "truth": float(-truth.log_density(task.group, dataset.test).mean()),
        "integral": effort.integral(flow),
    }


def conclude(rows: list[Row]) -> Row:
    """By data set, and the two checks."""
    groups = {
        name: {
            "nll": spread([row["nll"] for row in found]),
            "margin": spread([row["normal"] - row["nll"] for row in found]),
            "excess": spread([row["nll"] - row["truth"] for row in found]),
            "normal": found[0]["normal"],
            "truth": found[0]["truth"],
            "integral_error": max(abs(row["integral"] - 1) for row in found),
        }
        for name, found in grouped(rows).items()
    }
    return {
        "groups": groups,
        "checks": [
            {
                "what": "the test value of every seed is below that of the best normal distribution",
                "met": all(row["nll"] < row["normal"] for row in rows),
            },
            {
                "what": f"every trained density integrates to 1 within {ACCURACY:g}",
                "met": all(abs(row["integral"] - 1) < ACCURACY for row in rows),
            },
        ],
    }


def draw(results: Row, flow_of: Callable[[Row], Flow], out: Path, effort: Effort) -> None:
    """Test points, samples and density of the first seed, and the values of all seeds."""
    groups = grouped(results["runs"])
    with pictures.panels(
        out / "E4.png", len(groups), 4, (3.7, 3.5), width_ratios=[1, 1, 1, 0.62]
    ) as axes:
        for line, (name, rows) in zip(axes, groups.items(), strict=True):
            flow, box = flow_of(rows[0]), BOX[name]
            test = effort.data(name).test[:3000]
            with torch.no_grad():
                drawn = flow.sample(len(test), runs.seeded(0, "plot")).numpy()
            pictures.scatter(line[0], test, BLUE)
            pictures.scatter(line[1], drawn, RED)
            pictures.density(line[2], flow, box, cells=effort.cells(300))
            for place, title in enumerate(
                (f"{name}: test points", "samples, seed 0", "density, seed 0")
            ):
                pictures.frame(line[place], box, title)
            values = line[3]
            pictures.dots(values, 0, [row["nll"] for row in rows], RED, size=34)
            for level, color, style, label in (
                (rows[0]["normal"], BLACK, "--", "best normal"),
                (rows[0]["truth"], BLUE, ":", "the truth"),
            ):
                values.axhline(level, c=color, ls=style, lw=1.3)
                values.annotate(
                    label,
                    (1, level),
                    xycoords=("axes fraction", "data"),
                    xytext=(0, 3),
                    fontsize=9,
                    textcoords="offset points",
                    ha="right",
                    va="bottom",
                    color=color,
                )
            span = rows[0]["normal"] - rows[0]["truth"]
            values.set(
                xlim=(-0.6, 0.6),
                xticks=[],
                title=f"{len(rows)} seeds",
                ylabel="test NLL, nats",
                ylim=(rows[0]["truth"] - 0.12 * span, rows[0]["normal"] + 0.2 * span),
            )
            values.grid(axis="y", color=GRAY, alpha=0.25)


def section(results: Row) -> str:
    """What was measured."""
    lines = [
        [
            name,
            words.pm(found["nll"]),
            f"{found['normal']:.3f}",
            words.pm(found["margin"]),
            f"{found['truth']:.3f}",
            words.pm(found["excess"]),
            words.number(found["integral_error"], 6),
        ]
        for name, found in results["groups"].items()
    ]
    head = [
        "data",
        "flow (nats)",
        "normal",
        "below normal by",
        "truth",
        "above truth by",
        "largest error of the integral",
    ]
    first = results["runs"][0]
    count = results["groups"]["moons"]["nll"]["n"]
    return f"""The first notes stack six times a coupling with one hidden layer of 64 relus,
a batch normalization and a 1x1 convolution, and announce plots of moons and of a checkerboard,
which they do not have. Here that stack is trained, {first["steps"]} steps with batches of
{first["recipe"]["batch"]}, {count} seeds each. Four things differ from the notes: the log-scale
goes through a tanh with a learned factor, the couplings alternate instead of always changing the
first coordinate, they start as the identity, and the 1x1 convolutions as rotations. "Normal" is the
normal distribution with the mean and covariance of the training points; "truth" is the density that
the points are drawn from, the least that can be expected.

{words.table(head, lines)}

*Means and standard deviations over seeds, on 10,000 test points. The integral is over the plane, by
cells that are halved where it matters.*

![Two rows, moons and checkerboard: test points, samples and density of a flow, and its test values
between those of the truth and of the best normal distribution.](real-nvp/E4.png)

{words.checks(results)}"""


EXPERIMENT = Experiment(
    "E4",
    "Six couplings on moons and on a checkerboard",
    1,
    tasks,
    lambda task, effort: effort.data(task.group),
    measure,
    conclude,
    draw,
    section,
)
