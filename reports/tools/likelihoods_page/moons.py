"""Real NVP, a continuous flow, flow matching and a diffusion on moons: values, integrals, truncation
and the usual mistakes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from experiments import pictures, truth, words
from experiments.experiment import Effort, Experiment, Row, Task, Trained, grouped, spread
from experiments.pictures import BLACK, BLUE, GREEN, PURPLE, RED
from flowref.training import runs
from flowref.training.baselines import normal_nll
from flowref.training.data import Dataset
from flowref.training.families import FAMILIES
from flowref.training.flows import REAL_NVP
from flowref.training.plane import box_of
from flowref.training.recipes import Recipe
from likelihoods_page.readings import AS_IT_IS, Model, readings

DATA, SEEDS, EPOCHS = "moons", 3, 75
FLOWS = (REAL_NVP, "cnf", "matching", "diffusion")
MODEL: Row = {"depth": 6, "hidden": [64, 64]}
OPTIONS: dict[str, Row] = {REAL_NVP: MODEL} | {
    flow: {**FAMILIES[flow][1], "tolerance": 1e-3} for flow in FLOWS[1:]
}
BOX = (-1.4, 2.4, -0.9, 1.4)
CELLS, EULER = 240, 20
FINEST, TOLERANCES = 1e-9, (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
STEPS = (5, 10, 20, 40, 80, 160)
# Points at which truncation is measured.
ROWS = 2000
# Samples whose share in the box is compared with the integral over it.
SAMPLES, PARTS = 100_000, 20
COLORS = dict(zip(FLOWS, (BLACK, RED, BLUE, GREEN), strict=True))


def tasks(effort: Effort) -> list[Task]:
    """Each model with each seed."""
    return [
        Task(
            flow,
            seed,
            Recipe(
                DATA,
                seed=seed,
                flow=flow,
                model=OPTIONS[flow],
                epochs=effort.epochs(EPOCHS),
                batch=512,
                rate=5e-3,
                patience=1000,
            ),
        )
        for flow in FLOWS
        for seed in effort.seeds(SEEDS)
    ]


@torch.no_grad()
def measure(task: Task, flow: Trained, dataset: Dataset, effort: Effort) -> Row:
    """On test points and a grid: each reading's value and integral; truncation of the solver."""
    test = torch.as_tensor(dataset.test).double()
    grid, area = cells(test, effort.cells(CELLS))
    model, found = Model(flow), {}
    for name, reading in readings(model, runs.seeded(task.seed, "signs"), EULER).items():
        mean, over = -float(reading(test).mean()), float(reading(grid).exp().sum()) * area
        found[name] = {"nll": mean, "integral": over}
    return {
        "readings": found,
        "inside": share_inside(flow, test, effort.count(SAMPLES)),
        "normal": normal_nll(dataset.train, dataset.test),
        "truth": float(-truth.log_density(DATA, dataset.test).mean()),
        "parameters": sum(parameter.numel() for parameter in flow.parameters()),
        "truncation": truncation(flow, test[: effort.count(ROWS)]) if model.continuous else {},
    }


@torch.no_grad()
def share_inside(flow: Trained, points: Tensor, count: int) -> float:
    """The share of samples in the box of the integral: a trained density may reach far beyond it."""
    low, high = box_of(points, 0.5)
    model, random = Model(flow).flow, runs.seeded(0, "inside")
    drawn = torch.cat([model.sample(count // PARTS, random) for _ in range(PARTS)])
    return float(((drawn >= low) & (drawn <= high)).all(1).double().mean())


def cells(points: Tensor, side: int) -> tuple[Tensor, float]:
    """Midpoints ``(side * side, 2)`` of a grid over a box about points, and the area of a cell."""
    low, high = box_of(points, 0.5)
    places = (torch.arange(side, dtype=points.dtype) + 0.5) / side
    axes = [low[i] + (high[i] - low[i]) * places for i in (0, 1)]
    return torch.cartesian_prod(*axes), float((high - low).prod()) / side**2


def truncation(flow: Trained, x: Tensor) -> Row:
    """Calls of the field and mean distance from the finest log-density, by tolerance and by the
    number of Euler's steps.
    """
    exact = Model(flow, FINEST).parts(x).total
    found: Row = {"adaptive": [], "euler, divergences": [], "euler, log-dets": []}
    for tolerance in TOLERANCES:
        model = Model(flow, tolerance)
        off = (model.parts(x).total - exact).abs().mean()
        found["adaptive"].append([tolerance, model.calls, float(off)])
    for name, of_steps in (("euler, divergences", False), ("euler, log-dets", True)):
        for steps in STEPS:
            model = Model(flow)
            off = (model.parts(x, model.euler(steps, of_steps)).total - exact).abs().mean()
            found[name].append([steps, model.calls, float(off)])
    return found


def conclude(rows: list[Row]) -> Row:
    """By model and reading, and the checks."""
    groups = {
        name: {
            "readings": {
                reading: {
                    what: spread([row["readings"][reading][what] for row in found])
                    for what in ("nll", "integral")
                }
                for reading in found[0]["readings"]
            },
            "inside": spread([row["inside"] for row in found]),
            "excess": spread([row["readings"][AS_IT_IS]["nll"] - row["truth"] for row in found]),
            "parameters": found[0]["parameters"],
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
                "met": all(row["readings"][AS_IT_IS]["nll"] < row["normal"] for row in rows),
            },
            {
                "what": "the density of every seed integrates, over the box, to the share of its samples in "
                "it within 0.002",
                "met": all(
                    abs(row["readings"][AS_IT_IS]["integral"] - row["inside"]) < 2e-3
                    for row in rows
                ),
            },
        ],
    }


@torch.no_grad()
def draw(results: Row, flow_of: Callable[[Row], Trained], out: Path, effort: Effort) -> None:
    """Density and samples of the first seed of each model; truncation; mistakes."""
    found = grouped(results["runs"])
    with pictures.panels(out / "densities.png", 2, len(found), (3.6, 2.5)) as axes:
        for column, (group, rows) in enumerate(found.items()):
            flow = flow_of(rows[0])
            pictures.density(axes[0, column], flow, BOX, cells=effort.cells(200))
            samples = flow.sample(effort.count(3000), runs.seeded(0, "plot")).numpy()
            pictures.scatter(axes[1, column], samples, RED, 3)
            pictures.frame(axes[0, column], BOX, f"{group}: density")
            pictures.frame(axes[1, column], BOX, "samples")
    draw_truncation(found, out)
    draw_mistakes(results, out)


def draw_truncation(found: dict[str, list[Row]], out: Path) -> None:
    """Distance from the finest log-density over the calls of the field, of the first seed."""
    shown = {name: rows[0]["truncation"] for name, rows in found.items() if rows[0]["truncation"]}
    with pictures.panels(out / "truncation.svg", 1, len(shown), (3.4, 3.2), sharey=True) as axes:
        for place, (name, lines) in zip(axes[0], shown.items(), strict=True):
            for (label, points), color, mark in zip(
                lines.items(), (BLUE, RED, PURPLE), "os^", strict=True
            ):
                place.loglog(
                    [calls for _, calls, _ in points],
                    [off for *_, off in points],
                    f"{mark}-",
                    c=color,
                    ms=4,
                    label=label,
                )
            place.set(title=name, xlabel="calls of the field")
            place.grid(axis="y")
        axes[0, 0].set_ylabel("mean error of log p, nats")
        axes[0, -1].legend(fontsize=8)


def draw_mistakes(results: Row, out: Path) -> None:
    """Value and integral of every reading of every model."""
    with pictures.panels(out / "mistakes.svg", 1, 2, (4.6, 3.4), sharey=True) as ((left, right),):
        names = list(
            dict.fromkeys(n for group in results["groups"].values() for n in group["readings"])
        )
        nlls: list[float] = []
        for flow, group in results["groups"].items():
            at = [len(names) - 1 - names.index(name) for name in group["readings"]]
            nll = [one["nll"]["mean"] for one in group["readings"].values()]
            over = [one["integral"]["mean"] for one in group["readings"].values()]
            nlls += nll
            left.plot(nll, at, "o", c=COLORS[flow], ms=5, label=flow)
            right.plot(over, at, "o", c=COLORS[flow], ms=5, label=flow)
        left.axvline(results["truth"], c=BLACK, ls="--", lw=1.1)
        right.axvline(1.0, c=BLACK, ls="--", lw=1.1)
        left.set(
            yticks=range(len(names)),
            yticklabels=names[::-1],
            xlabel="test NLL, nats (dashed: truth)",
            xscale="log" if min(nlls) > 0 else "linear",
        )
        left.tick_params(labelsize=8.5)
        right.set(xlabel="integral of the density", xscale="log")
        right.legend(fontsize=8)
        for place in (left, right):
            place.grid(axis="y")


def section(results: Row) -> str:
    """What was measured."""
    groups = results["groups"]
    head = [
        "model",
        "test NLL (nats)",
        "above the truth by",
        "integral",
        "samples inside",
        "parameters",
        "calls",
    ]
    lines = [
        [
            name,
            words.pm(found["readings"][AS_IT_IS]["nll"]),
            words.pm(found["excess"]),
            words.pm(found["readings"][AS_IT_IS]["integral"], 5),
            words.number(found["inside"]["mean"], 5),
            str(found["parameters"]),
            _calls(results, name),
        ]
        for name, found in groups.items()
    ]
    first = results["runs"][0]
    return f"""Real NVP, a continuous flow, flow matching and a diffusion see the same 20,000 points
{first["recipe"]["epochs"]} times ({first["steps"]} steps of {first["recipe"]["batch"]}), with
{groups[REAL_NVP]["excess"]["n"]} seeds each. The first two are trained by their likelihood, the others by
the error of their prediction, and their likelihood is that of their ODE: `ProbabilityFlow` with
`StraightLine` and a velocity, and with `VariancePreserving` and a prediction of the noise. The network
of the three has two hidden layers of 64. Trainings are short, and matching would gain by more of it: what is
compared are likelihoods of given weights, not families.

{words.table(head, lines)}

*Means and standard deviations over seeds, on 10,000 test points, in float64 with a tolerance of 1e-6; the
truth is {results["truth"]:.3f}, the best normal distribution {results["normal"]:.3f}. The integral is a sum
over {CELLS} by {CELLS} cells of a box about the test points; beside it the share of {SAMPLES} samples that lie
in that box. The density of the diffusion is that of points with the noise of time 0.001.
Calls of the network are for log-densities to 0.001, first seed.*

![Density and samples of each model.](likelihoods/densities.png)

### What a mistake does to the value

The same weights, with mistakes that are found in published code. A lower value is not a better
model: what is no density any more has an integral that is not one.

{_mistakes(results)}

*Means over seeds; the first number is the test NLL in nats, the second the integral.*

![Test NLL and integral of each reading and model.](likelihoods/mistakes.svg)

{" ".join(_seen(results))}

### Truncation

A solver maps points by its own steps. The log-density of that map has the log-dets of the steps; the
integral of the divergence is that of the exact solution. They differ by the truncation, which falls
with the number of steps: of Euler's by its first power. Adaptive steps (`CNF`, Dormand and Prince with
nodes of their own for the divergence) keep to a tolerance.

{_truncations(results)}

*Mean distance in nats from the log-density at a tolerance of {FINEST:g}, over {ROWS} test points, first
seed; calls of the field count one for the divergence as well.*

![Mean error of log p over the calls of the field, for adaptive steps and Euler's.](likelihoods/truncation.svg)

{words.checks(results)}"""


def _calls(results: Row, name: str) -> str:
    first = grouped(results["runs"])[name][0]["truncation"]
    return str({t: calls for t, calls, _ in first["adaptive"]}[1e-3]) if first else "one pass"


def _mistakes(results: Row) -> str:
    groups = results["groups"]
    names = list(dict.fromkeys(n for group in groups.values() for n in group["readings"]))
    lines = []
    for name in names:
        row = [name]
        for group in groups.values():
            one = group["readings"].get(name)
            row.append(
                ""
                if one is None
                else f"{one['nll']['mean']:.3f} / {words.number(one['integral']['mean'], 4)}"
            )
        lines.append(row)
    return words.table(["", *groups], lines)


def _seen(results: Row) -> Iterator[str]:
    """Sentences that follow from the numbers."""
    truth_value, better, kept = results["truth"], [], []
    for flow, group in results["groups"].items():
        right = group["readings"][AS_IT_IS]
        for name, one in group["readings"].items():
            if name == AS_IT_IS:
                continue
            moved = one["nll"]["mean"] - right["nll"]["mean"]
            off = abs(one["integral"]["mean"] - 1)
            if moved < -2 * right["nll"]["sd"] and off > 0.01:
                below = one["nll"]["mean"] < truth_value
                better.append(
                    f"{name} ({flow}, by {-moved:.2f} nats{', below the truth' if below else ''})"
                )
            if off < 0.002 and abs(moved) > 0.01:
                kept.append(f"{name} ({flow}, {moved:+.3f} nats)")
    if better:
        yield f"Flattering, and no density: {words.listed(better)}."
    if kept:
        yield (
            f"Another density, whose integral is one: {words.listed(kept)}. No integral shows such a "
            "mistake; laws about closed forms and about samples do."
        )


def _truncations(results: Row) -> str:
    shown = [
        (name, rows[0]["truncation"])
        for name, rows in grouped(results["runs"]).items()
        if rows[0]["truncation"]
    ]
    lines = []
    for label in ("adaptive", "euler, divergences", "euler, log-dets"):
        for index, (setting, *_) in enumerate(shown[0][1][label]):
            word = f"tolerance {setting:g}" if label == "adaptive" else f"{setting} steps"
            row = [f"{label}: {word}"]
            for _, found in shown:
                _, calls, off = found[label][index]
                row.append(f"{words.number(off, 4)} ({calls})")
            lines.append(row)
    return words.table(["", *(f"{name}: nats (calls)" for name, _ in shown)], lines)


EXPERIMENT = Experiment(
    "moons",
    "Four models of the same points",
    1,
    tasks,
    lambda task, effort: effort.data(DATA),
    measure,
    conclude,
    draw,
    section,
)
