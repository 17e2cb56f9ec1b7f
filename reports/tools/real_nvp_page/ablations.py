"""E7: what norm layers, zero initialization, the momentum and the penalty are worth, one change at
a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.ticker import MaxNLocator

from experiments import pictures, words
from experiments.experiment import Effort, Experiment, Row, Task, grouped, spread
from experiments.pictures import BLACK, BLUE, GRAY, GREEN, PURPLE, RED
from flowref.reference import Dequantize, Flow, real_nvp_loss
from flowref.training import runs
from flowref.training.data import Dataset
from flowref.training.loop import mean_nll
from flowref.training.models import tensor
from flowref.training.recipes import Recipe

PENALTY, LARGEST_RATIO, REPEATS = 5e-5, 1e-3, 4
BASE = "both norms"
POINTS: Row = {
    "depth": 6,
    "hidden": [64, 64],
    "norm": "running",
    "momentum": 0.005,
    "mixing": False,
}
IMAGES: Row = {
    "scales": 2,
    "couplings": 2,
    "final": 2,
    "hidden": 16,
    "blocks": 1,
    "alpha": 0.003,
    "norm": "running",
    "momentum": 0.005,
    "conditioner_norm": "batch",
}
SETTINGS: dict[str, Row] = {
    "moons": {"epochs": 15, "batch": 512, "rate": 5e-3, "seeds": 5},
    "digits": {"epochs": 6, "batch": 32, "rate": 2e-3, "seeds": 3},
}
UNIT = {"moons": "nats", "digits": "bits per dimension"}
SHOWN = {
    BASE: "both norms (the measure of all)",
    "no norm": "no norm at all",
    "norm between": "norm between couplings only",
    "norm inside": "norm inside conditioners only",
    "act norm between": "ActNorm between couplings",
    "instance norm inside": "instance norm inside",
    "nonzero start": "conditioners do not start at 0",
    "momentum 0.1": "momentum 0.1, not 0.005",
    "no penalty": "no penalty on the scales",
}


def model(data: str, change: str) -> tuple[Row, tuple[str, ...]] | None:
    """The options of the model and its variants; None where a change does not apply."""
    points = data == "moons"
    options = dict(POINTS if points else IMAGES)
    inside = change not in ("no norm", "norm between")
    variants = ("normed-conditioner",) if points and inside else ()
    if not points and not inside:
        options["conditioner_norm"] = None
    if change in ("no norm", "norm inside"):
        options["norm"] = None
    if change == "act norm between":
        variants = ("act-norm", *variants)
    if change == "instance norm inside":
        if points:
            return None  # an instance of one value per channel has no statistics
        options["conditioner_norm"] = "instance"
    if change == "nonzero start":
        variants = (*variants, "nonzero-outputs")
    if change == "momentum 0.1":
        options["momentum"] = 0.1
    return options, variants


def tasks(effort: Effort) -> list[Task]:
    """Each change on each data set with each seed; seeds are shared, so that differences are those
    of the change.
    """
    found = []
    for data, setting in SETTINGS.items():
        for change in SHOWN:
            built = model(data, change)
            if built is None:
                continue
            for seed in effort.seeds(setting["seeds"]):
                recipe = Recipe(
                    data,
                    seed=seed,
                    model=built[0],
                    variants=built[1],
                    epochs=effort.epochs(setting["epochs"]),
                    batch=setting["batch"],
                    rate=setting["rate"],
                    penalty=0.0 if change == "no penalty" else PENALTY,
                    patience=1000,
                )
                found.append(Task(f"{data}: {change}", seed, recipe))
    return found


def parts(group: str) -> tuple[str, str]:
    """Data set and change of a group."""
    data, _, change = group.partition(": ")
    return data, change


@torch.no_grad()
def measure(task: Task, flow: Flow | None, dataset: Dataset, effort: Effort) -> Row:
    """The test value, and the terms of the loss on test events, all in nats."""
    assert flow is not None and task.recipe is not None
    images = dataset.levels is not None
    nll = mean_nll(flow, dataset.test, dataset.levels, runs.seeded(0), REPEATS if images else 1)
    x = tensor(dataset.test)
    if dataset.levels is not None:
        x = Dequantize(dataset.levels)(x, generator=runs.seeded(1))[0]
    z, _ = flow(x)
    return {
        "nll": nll,
        "value": nll / (dataset.dims * math.log(2)) if images else nll,
        "penalty": real_nvp_loss(flow, x[:2], PENALTY).penalty.item(),
        "base_term": -float(flow.base.log_prob(z).mean()),
        "penalized": task.recipe.penalty > 0,
    }


def conclude(rows: list[Row]) -> Row:
    """By data set and change: values, differences from the base with the same seed, and the ratio
    of penalty and NLL.
    """
    groups: dict[str, Any] = {}
    by_group = grouped(rows)
    for group, found in by_group.items():
        base = {row["seed"]: row["value"] for row in by_group[f"{parts(group)[0]}: {BASE}"]}
        groups[group] = {
            "value": spread([row["value"] for row in found]),
            "difference": spread([row["value"] - base[row["seed"]] for row in found]),
        }
    ratios: dict[str, Any] = {}
    for data in SETTINGS:
        kept = [row for row in rows if parts(row["group"])[0] == data and row["penalized"]]
        ratios[data] = {
            "penalty": spread([row["penalty"] for row in kept]),
            "to_nll": spread([row["penalty"] / abs(row["nll"]) for row in kept]),
            "to_base_term": spread([row["penalty"] / row["base_term"] for row in kept]),
        }
    return {
        "groups": groups,
        "ratios": ratios,
        "checks": [
            {
                "what": f"on {data}, penalty / NLL is below {LARGEST_RATIO:g} in every run with the penalty (largest "
                f"{found['to_nll']['most']:.2g})",
                "met": found["to_nll"]["most"] < LARGEST_RATIO,
            }
            for data, found in ratios.items()
        ],
    }


COLORS = {
    BASE: BLACK,
    "no norm": RED,
    "norm between": GREEN,
    "norm inside": PURPLE,
    "momentum 0.1": BLUE,
}


def draw(results: Row, flow_of: Callable[[Row], Flow], out: Path, effort: Effort) -> None:
    """Paired differences with their intervals, and the course of some trainings."""
    found = grouped(results["runs"])
    changes = [change for change in SHOWN if change != BASE]
    with pictures.panels(out / "E7.svg", 1, 2, (5.6, 4.4), sharey=True) as axes:
        for place, data in zip(axes[0], SETTINGS, strict=True):
            base = {row["seed"]: row["value"] for row in found[f"{data}: {BASE}"]}
            for at, change in enumerate(changes):
                group = f"{data}: {change}"
                if group not in found:
                    place.annotate(
                        "does not apply",
                        (0, at),
                        fontsize=8.5,
                        color=GRAY,
                        va="center",
                        ha="center",
                        bbox={"fc": "white", "ec": "none", "pad": 1.5},
                    )
                    continue
                differences = [row["value"] - base[row["seed"]] for row in found[group]]
                said = results["groups"][group]["difference"]
                pictures.interval(place, at, said["mean"], said["low"], said["high"], GRAY)
                place.scatter(
                    differences,
                    [at - 0.22] * len(differences),
                    s=20,
                    c=RED,
                    alpha=0.75,
                    linewidths=0,
                    zorder=3,
                )
            place.axvline(0, c=BLACK, lw=1)
            place.set(
                title=f"{data} ({len(base)} seeds)",
                xlabel=f"difference from both norms, {UNIT[data]}",
                yticks=range(len(changes)),
                yticklabels=[SHOWN[change] for change in changes],
            )
            place.set_ylim(len(changes) - 0.4, -0.6)
            place.grid(axis="x")
            place.xaxis.set_major_locator(MaxNLocator(5))
            low, high = place.get_xlim()
            place.annotate(
                "worse →",
                (0.995, 1),
                xycoords="axes fraction",
                ha="right",
                va="bottom",
                fontsize=9,
                color=GRAY,
            )
            place.annotate(
                "← better",
                (0.005, 1),
                xycoords="axes fraction",
                ha="left",
                va="bottom",
                fontsize=9,
                color=GRAY,
            )
            place.set_xlim(low, high)
    with pictures.panels(out / "E7-course.svg", 1, 2, (5.0, 3.7)) as axes:
        for place, data in zip(axes[0], SETTINGS, strict=True):
            unit = 1.0 if data == "moons" else 1 / (64 * math.log(2))
            for change, color in COLORS.items():
                curves = np.array([row["curve"] for row in found[f"{data}: {change}"]])
                place.plot(
                    curves[0, :, 0],
                    unit * curves[:, :, 1].mean(0),
                    c=color,
                    label=change,
                    ls="--" if change == "momentum 0.1" else "-",
                    marker="o",
                    ms=3,
                )
            last = [
                unit * row["curve"][-1][1]
                for change in COLORS
                for row in found[f"{data}: {change}"]
            ]
            low, high = min(last), max(last)
            highest = 1.05 * max(place.get_ylim()[1], high)
            place.set(
                xlabel="step",
                ylabel=f"validation NLL, {UNIT[data]}",
                title=f"{data}: mean over seeds",
                ylim=(
                    low - 0.1 * (high - low),
                    low + min(3.2 * (high - low), highest - low) + 1e-6,
                ),
            )
            place.grid(axis="y")
        axes[0, 1].legend(fontsize=9)


def seen(found: Row, sign: int) -> str:
    """What an interval says of an effect that is expected in one direction (1: the change makes it
    worse).
    """
    if sign * found["low"] > 0 and sign * found["high"] > 0:
        return "seen"
    if sign * found["low"] < 0 and sign * found["high"] < 0:
        return "**the opposite is seen**"
    return "**not seen**, the interval holds 0"


def differences(results: Row, change: str, sign: int = 0) -> str:
    """What a change does on both data sets; with a sign, whether that is what the claim says."""
    said = []
    for data in SETTINGS:
        found = results["groups"].get(f"{data}: {change}")
        if found is not None:
            difference = found["difference"]
            verdict = f" ({seen(difference, sign)})" if sign else ""
            said.append(
                f"{difference['mean']:+.3f} {words.between(difference)} {UNIT[data]} on "
                f"{data}{verdict}"
            )
    return words.listed(said)


def negligible(results: Row) -> str:
    """What leaving the penalty out does, beside how far seeds differ."""
    said = []
    for data in SETTINGS:
        difference = results["groups"][f"{data}: no penalty"]["difference"]
        seeds = results["groups"][f"{data}: {BASE}"]["value"]["sd"]
        said.append(
            f"on {data} the difference is {difference['mean']:+.4f} "
            f"{words.between(difference, 4)} {UNIT[data]}, where "
            f"seeds have a standard deviation of {seeds:.4f}"
        )
    return " and ".join(said)


def section(results: Row) -> str:
    """What was measured, claim by claim."""
    lines = []
    for change in SHOWN:
        line = [SHOWN[change]]
        for data in SETTINGS:
            found = results["groups"].get(f"{data}: {change}")
            line += (
                ["", ""]
                if found is None
                else [
                    words.pm(found["value"]),
                    ""
                    if change == BASE
                    else f"{found['difference']['mean']:+.3f} {words.between(found['difference'])}",
                ]
            )
        lines.append(line)
    first = {
        data: next(row for row in results["runs"] if parts(row["group"])[0] == data)
        for data in SETTINGS
    }
    counts = {data: results["groups"][f"{data}: {BASE}"]["value"]["n"] for data in SETTINGS}
    ratios = results["ratios"]
    arrived = {data: 1 - 0.995 ** first[data]["steps"] for data in SETTINGS}
    return f"""The second notes report what mattered: normalization, in the
conditioners and between the couplings, was the key to a low loss; setting the outputs of the
conditioners to zero at the start worked much better than other values; running averages with
momentum 0.005 worked better than with 0.1; the penalty of {PENALTY:g} on the learned scales did
next to nothing, its part of the loss always being orders of magnitude below the others. The author
says himself that some of it rests on one or two runs.

Here each change is made alone, to a base that has both norms: batch normalization inside the
conditioners and, by running averages with momentum 0.005, between the couplings; zero at the start;
the penalty. On moons {first["moons"]["steps"]} steps with batches of
{first["moons"]["recipe"]["batch"]} and {counts["moons"]} seeds, on the 8 by 8 digits
{first["digits"]["steps"]} steps with batches of {first["digits"]["recipe"]["batch"]} and
{counts["digits"]} seeds. A seed sets the same first weights and the same order of the data in all
changes, so that differences are taken seed by seed; brackets hold the 95 % interval of the mean
difference by Student's t, not corrected for the number of comparisons. One learning rate serves all
changes. The convolutions for digits are weight-normalized throughout, as in the notes.

{words.table(["change", "moons: NLL (nats)", "difference", "digits: bits per dimension", "difference"], lines)}

![Differences from the base for each change: dots are seeds, bars the intervals of their means, for
moons and for digits.](real-nvp/E7.svg)

![Validation values over the steps of training for the base, three choices of norms, and the larger
momentum.](real-nvp/E7-course.svg)

**Norm layers are crucial.** Leaving out both changes the loss by
{differences(results, "no norm", 1)}; leaving out those between the couplings by
{differences(results, "norm inside")}; leaving out those inside the conditioners by
{differences(results, "norm between")}. `ActNorm` in place of those between the couplings changes it
by {differences(results, "act norm between")}.

**Instance norm inside rather than batch norm.** The author took it because it seemed to work
better, as he says on little evidence. It changes the loss by
{differences(results, "instance norm inside", -1)}; points have one value per channel, of which
there are no statistics.

**Zero at the start is crucial.** Conditioners that start as torch draws them change the loss by
{differences(results, "nonzero start", 1)}. Which values the author had before is not known. E5 has
data on which zero at the start does harm.

**Momentum 0.005 is better than 0.1.** With 0.1 the loss changes by
{differences(results, "momentum 0.1", 1)}. The trainings are short: after their
{first["moons"]["steps"]} and {first["digits"]["steps"]} steps, averages with momentum 0.005 have
taken up {arrived["moons"]:.0%} and {arrived["digits"]:.0%} of what they follow, so that this says
little of trainings a hundred times longer.

**The penalty does next to nothing.** Without it, {negligible(results)}. It is
{words.number(ratios["moons"]["penalty"]["mean"], 6)} nats on moons and
{words.number(ratios["digits"]["penalty"]["mean"], 6)} nats on digits. Its ratio to the NLL is at
most {words.number(ratios["moons"]["to_nll"]["most"], 6)} on moons and
{words.number(ratios["digits"]["to_nll"]["most"], 6)} on digits. Such ratios say little: where the
zero of an NLL in nats lies depends on the unit of length. E5 has trainings where the ratio is above
the limit. Beside the term of the base density, which does not depend on units and is one of the
terms that the author looked at, the penalty is at most
{words.number(ratios["moons"]["to_base_term"]["most"], 6)} and
{words.number(ratios["digits"]["to_base_term"]["most"], 6)}.

{words.checks(results)}"""


EXPERIMENT = Experiment(
    "E7",
    "One change at a time: norms, zeros, momentum, penalty",
    1,
    tasks,
    lambda task, effort: effort.data(parts(task.group)[0]),
    measure,
    conclude,
    draw,
    section,
)
