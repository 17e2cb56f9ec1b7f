"""Evaluation of a trained flow: test data, baselines, and the integral of its density."""

from __future__ import annotations

import contextlib
import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path

from flowref.training import runs
from flowref.training.baselines import baselines
from flowref.training.bounds import MANY, DrawnFlow
from flowref.training.data import Dataset
from flowref.training.extras import RunError
from flowref.training.flows import REAL_NVP
from flowref.training.loop import mean_nll
from flowref.training.plane import is_solved, plane_integral
from flowref.training.recipes import Recipe

REPEATS = 8  # draws of the noise for each test image
# Evaluations and samples of the integral where each is the solution of an ODE.
OF_SOLUTIONS = 100_000, 20_000


@dataclass(frozen=True)
class Summary:
    """The result of a training run. ``value`` and ``baselines`` in nats for points, in bits per
    dimension for images; ``draws``: of latents for each point, if ``value`` is a bound.
    """

    dataset: str
    seed: int
    epochs: int
    best_epoch: int
    parameters: int
    seconds: float
    value: float
    baselines: dict[str, float]
    integral: float | None = None
    draws: int = 0
    audit: dict[str, int] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """The unit of the values."""
        return "nats" if self.integral is not None else "bits per dimension"

    def lines(self) -> list[str]:
        """The summary as lines of text."""
        measure = (
            "code length, an upper bound by dequantization"
            if self.integral is None
            else "negative log-density"
        )
        if self.draws:
            measure += f", an upper bound by {self.draws} latents for each point"
        width = max(map(len, self.baselines))
        lines = [
            f"on test data that it has not seen ({measure}, in {self.unit}; lower is better):",
            f"  {'the flow':<{width}}   {self.value:7.3f}",
        ]
        for name, value in self.baselines.items():
            word = "better" if self.value < value else "worse"
            lines.append(
                f"  {name:<{width}}   {value:7.3f}   the flow is {word} by "
                f"{abs(value - self.value):.3f}"
            )
        if self.integral is not None:
            lines.append(f"its density integrates to {self.integral:.5f} over the plane")
        return lines

    def to_json(self) -> str:
        """The summary as JSON."""
        return json.dumps(asdict(self), indent=2) + "\n"


def evaluate_run(folder: Path, recipe: Recipe, dataset: Dataset) -> Summary:
    """Evaluates the trained flow of a run on the test part of its data."""
    flow = runs.load(str(folder))
    images = dataset.levels is not None
    nll = mean_nll(
        flow,
        dataset.test,
        dataset.levels,
        runs.seeded(recipe.seed, "test"),
        REPEATS if images else 1,
        MANY,
    )
    drawn = isinstance(flow, DrawnFlow) and flow.lower_bound
    rows = runs.metrics(folder)
    effort = OF_SOLUTIONS if is_solved(flow) else ()
    return Summary(
        dataset=recipe.dataset,
        seed=recipe.seed,
        epochs=len(rows),
        best_epoch=min(rows, key=lambda row: row["validation_nll"])["epoch"],
        parameters=sum(parameter.numel() for parameter in flow.parameters()),
        seconds=rows[-1]["seconds"],
        value=nll / (dataset.dims * math.log(2)) if images else nll,
        baselines=baselines(dataset) | siblings(folder, recipe),
        integral=None if images else plane_integral(flow, *effort),
        draws=MANY if drawn else 0,
    )


def siblings(folder: Path, recipe: Recipe) -> dict[str, float]:
    """Label -> test value of Real NVP on the same data, from the last finished run in the same
    folder; empty for Real NVP itself, and if there is none.
    """
    if recipe.flow == REAL_NVP:
        return {}
    found = {}
    for path in sorted(
        folder.parent.glob(f"*/{runs.SUMMARY}"), key=lambda one: one.stat().st_mtime
    ):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RunError):
            other = runs.recipe_of(path.parent)
            if other.flow == REAL_NVP and (other.dataset, other.path) == (
                recipe.dataset,
                recipe.path,
            ):
                value = json.loads(path.read_text(encoding="utf-8"))["value"]
                found = {f"Real NVP, {path.parent.name}": float(value)}
    return found
