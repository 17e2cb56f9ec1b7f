"""E8: a handful of images learned by heart, and passed forward and back."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.autograd.functional import jacobian

from experiments import pictures, words
from experiments.experiment import Effort, Experiment, Row, Task, spread
from experiments.pictures import BLACK, BLUE, GRAY, RED
from flowref.reference import Dequantize, Flow
from flowref.training import plots, runs
from flowref.training.baselines import histogram_bits
from flowref.training.data import Dataset
from flowref.training.loop import mean_nll
from flowref.training.models import tensor
from flowref.training.recipes import Recipe

SEEDS, EPOCHS, IMAGES, COPIES, REPEATS = 3, 100, 8, 8, 20
# So many units of the bound are allowed, as the laws allow 64 times the spread that rounding is
# seen to cause.
FACTOR = 64.0
MODEL: Row = {
    "scales": 2,
    "couplings": 3,
    "final": 2,
    "hidden": 24,
    "blocks": 1,
    "alpha": 0.003,
    "momentum": 0.02,
}


def tasks(effort: Effort) -> list[Task]:
    """One training for each seed."""
    return [
        Task(
            "eight digits",
            seed,
            Recipe(
                "digits",
                seed=seed,
                model=MODEL,
                epochs=effort.epochs(EPOCHS),
                batch=16,
                rate=2e-3,
                patience=1000,
            ),
        )
        for seed in effort.seeds(SEEDS)
    ]


def dataset(task: Task, effort: Effort) -> Dataset:
    """The first eight training images, several times in an epoch; the test part is that of all
    digits.
    """
    whole = effort.data("digits")
    few = whole.train[:IMAGES]
    return Dataset("digits", np.tile(few, (COPIES, 1, 1, 1)), few, whole.test, whole.levels)


def round_trip(flow: Flow, x: Tensor) -> tuple[Tensor, Tensor]:
    r"""The error of $f^{-1}(f(x))$ for each image, and its bound by the condition, both as
    multiples of the unit of roundoff.

    With $J$ the Jacobian of $f$ at $x$ and $y = f(x)$, errors of one unit in $x$, of that through
    $J$, and of two in $y$ come back through $J^{-1}$ as at most $|J^{-1}| (|J| |x| + 2 |y|) + |x|$,
    entry by entry.
    """
    unit = torch.finfo(x.dtype).eps / 2
    flow = copy.deepcopy(flow).to(x.dtype).eval()
    with torch.no_grad():
        y = flow(x)[0]
        back = flow.inverse(y)[0]
    exact = copy.deepcopy(flow).double()
    bounds = []
    for row in x.double():
        forward = jacobian(lambda point: exact(point[None])[0][0], row).reshape(
            row.numel(), row.numel()
        )
        ahead = (
            forward.abs() @ row.flatten().abs()
            + 2 * exact(row[None])[0][0].detach().abs().flatten()
        )
        bounds.append(torch.linalg.inv(forward).abs() @ ahead + row.flatten().abs())
    errors = (back.double() - x.double()).abs().flatten(1) / unit
    return errors, torch.stack(bounds)


def bits(nll: float, dims: int) -> float:
    """Nats of an image as bits per dimension."""
    return nll / (dims * math.log(2))


def measure(task: Task, flow: Flow | None, dataset: Dataset, effort: Effort) -> Row:
    """Code lengths of the eight and of others, and the round trip of the eight in two precisions."""
    assert flow is not None and dataset.levels is not None
    few = dataset.validation
    row: Row = {}
    repeats = effort.count(REPEATS)
    row["learned"] = bits(
        mean_nll(flow, few, dataset.levels, runs.seeded(0), repeats), dataset.dims
    )
    row["others"] = bits(
        mean_nll(flow, dataset.test, dataset.levels, runs.seeded(0), 2), dataset.dims
    )
    row["histogram"] = histogram_bits(dataset.train, dataset.test, dataset.levels)
    x = Dequantize(dataset.levels)(tensor(few), generator=runs.seeded(task.seed, "round trip"))[0]
    for name, dtype in (("float32", torch.float32), ("float64", torch.float64)):
        errors, bounds = round_trip(flow, x.to(dtype))
        unit = torch.finfo(dtype).eps / 2
        row[name] = {
            "error": float(errors.max()) * unit,
            "bound": float(bounds.max()) * unit,
            "ratio": float((errors / bounds).max()),
            "errors": (errors.amax(1) * unit).tolist(),
            "bounds": (bounds.amax(1) * unit).tolist(),
        }
    drawn = (
        flow.sample(effort.count(500), runs.seeded(task.seed, "samples"))
        .clamp(0, 16.999)
        .floor()
        .flatten(1)
    )
    known = tensor(few).flatten(1)
    near = torch.cdist(drawn, known).amin(1)
    row["near"] = float((near < float(torch.pdist(known).min()) / 2).double().mean())
    return row


def conclude(rows: list[Row]) -> Row:
    """Over seeds, and the check of the round trip."""
    ratio = {name: max(row[name]["ratio"] for row in rows) for name in ("float32", "float64")}
    return {
        "learned": spread([row["learned"] for row in rows]),
        "others": spread([row["others"] for row in rows]),
        "near": spread([row["near"] for row in rows]),
        "least": math.log2(IMAGES) / 64,
        "ratio": ratio,
        "error": {name: max(row[name]["error"] for row in rows) for name in ratio},
        "checks": [
            {
                "what": f"in {name}, no error of the round trip is above {FACTOR:g} times its bound (largest {value:.2g} times)",
                "met": value < FACTOR,
            }
            for name, value in ratio.items()
        ],
    }


def draw(results: Row, flow_of: Callable[[Row], Flow], out: Path, effort: Effort) -> None:
    """The images, samples, the course of training, and errors beside their bounds."""
    rows = results["runs"]
    few = dataset(tasks(effort)[0], effort)
    assert few.levels is not None
    flow = flow_of(rows[0])
    drawn = flow.sample(24, runs.seeded(0, "plot")).clamp(0, 16.999).floor().numpy()
    with pictures.panels(out / "E8.png", 1, 4, (3.7, 3.6), width_ratios=[0.8, 0.8, 1, 1]) as axes:
        left, middle, course, trips = axes[0]
        sheet = plots.grid(few.validation, 2, few.levels)
        left.imshow(sheet[..., 0], cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
        left.set(title="the eight digits")
        middle.imshow(
            plots.grid(drawn, 4, few.levels)[..., 0],
            cmap="gray_r",
            vmin=0,
            vmax=1,
            interpolation="nearest",
        )
        middle.set(title="samples, not chosen, seed 0")
        for place in (left, middle):
            place.set_axis_off()
        for row in rows:
            curve = np.array(row["curve"])
            course.plot(curve[:, 0], curve[:, 1] / (64 * math.log(2)), c=RED, lw=1.2, alpha=0.8)
        course.axhline(results["least"], c=BLUE, ls=":", lw=1.4)
        course.annotate(
            r"$\log_2 8\, /\, 64$: which of the eight",
            (0.98, results["least"]),
            fontsize=8.5,
            color=BLUE,
            ha="right",
            xycoords=("axes fraction", "data"),
            xytext=(0, 4),
            textcoords="offset points",
        )
        course.set(
            xlabel="step", ylabel="bits per dimension of the eight", title=f"{len(rows)} seeds"
        )
        course.grid(axis="y")
        for name, color, marker in (("float32", RED, "o"), ("float64", BLUE, "s")):
            bounds, errors = (
                np.concatenate([row[name][kind] for row in rows]) for kind in ("bounds", "errors")
            )
            trips.scatter(
                bounds, errors, s=22, c=color, marker=marker, alpha=0.75, linewidths=0, label=name
            )
        everything = [
            value
            for row in rows
            for name in ("float32", "float64")
            for value in row[name]["bounds"]
        ]
        ends = np.array([min(everything) / 3, max(everything) * 3])
        trips.plot(ends, ends, c=BLACK, lw=1.2, label="the bound")
        trips.plot(
            ends, FACTOR * ends, c=GRAY, lw=1.2, ls="--", label=f"{FACTOR:g} times the bound"
        )
        trips.set(
            xscale="log",
            yscale="log",
            xlabel="bound by the condition (pixel levels)",
            xlim=ends,
            ylabel="error of the round trip",
            title="forward and back",
        )
        trips.legend(fontsize=8.5, loc="upper left")
        trips.set_ylim(top=trips.get_ylim()[1] * 100)


def section(results: Row) -> str:
    """What was measured."""
    first = results["runs"][0]
    return f"""The second notes advise to make a network learn a handful of images by heart
before it gets more, and to pass an image forward and back, which should give the same image up to
the uniform noise. Here that is done with eight digits of 8 by 8 pixels: {first["steps"]} steps with
batches of {first["recipe"]["batch"]}, {len(results["runs"])} seeds.

Learned by heart: the eight take {words.pm(results["learned"])} bits per dimension, of which
{results["least"]:.3f} are the least that any code needs to tell eight images apart; other digits
take {words.pm(results["others"], 2)} on the same flows, and {first["histogram"]:.2f} by a histogram
of each pixel of the eight. Of the samples, {results["near"]["mean"]:.0%} are nearer to one of the
eight than half the distance of the closest two.

Forward and back, in eval mode: the largest error is {words.number(results["error"]["float32"], 6)}
levels in float32 and {words.number(results["error"]["float64"], 9)} in float64. What rounding may
do depends on the condition of the map: with the Jacobian $J$ at $x$ and $y = f(x)$, units of
roundoff $u$ in $x$ and $y$ come back as at most $u\\,(|J^{{-1}}| (|J| |x| + 2 |y|) + |x|)$. The
bound knows only the two ends of the map, and not what is rounded between its layers. Entry by
entry, errors are at most {results["ratio"]["float32"]:.2g} times that in float32 and
{results["ratio"]["float64"]:.2g} times in float64.

![The eight digits, samples of the trained flow, bits per dimension over the steps, and errors of
the round trip beside their bound.](real-nvp/E8.png)

{words.checks(results)}"""


EXPERIMENT = Experiment(
    "E8",
    "Eight images by heart, forward and back",
    1,
    tasks,
    dataset,
    measure,
    conclude,
    draw,
    section,
)
