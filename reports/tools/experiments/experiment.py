"""An experiment: trainings that are each finished or gone on with, their numbers as JSON, pictures,
and a section of the page.
"""

from __future__ import annotations

import ast
import hashlib
import json
import platform
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from flowref import reference, training
from flowref.training import data, plane, runs
from flowref.training.data import Dataset
from flowref.training.loop import Training, TrainingListener
from flowref.training.recipes import Recipe

Row = dict[str, Any]
# A flow as an experiment trains it: `Flow`, or `DrawnFlow` where it has layers that draw or forget.
Trained = Any
RESULT = "result.json"
PACKAGES = ("torch", "numpy", "scikit-learn", "scipy", "matplotlib")
# What weights depend on, besides recipes: a change of these begins every training again.
SOURCES = ("loop.py", "models.py", "variants.py", "data.py", "families.py", "bounds.py")


@dataclass(frozen=True)
class Effort:
    """How much is done: all of it, or a rehearsal with little of everything, whose numbers say
    nothing.
    """

    rehearsal: bool = False

    def seeds(self, number: int) -> range:
        """The seeds of a group."""
        return range(2 if self.rehearsal else number)

    def epochs(self, number: int) -> int:
        """How long a training is."""
        return 1 if self.rehearsal else number

    def count(self, number: int) -> int:
        """How many samples or repeats are drawn."""
        return max(number // 50, 20) if self.rehearsal else number

    def cells(self, number: int) -> int:
        """The cells along each axis of a picture."""
        return number // 10 if self.rehearsal else number

    def integral(self, flow: Trained) -> float:
        """Of the density over the plane."""
        return (
            plane.plane_integral(flow, 10_000, 1000)
            if self.rehearsal
            else plane.plane_integral(flow)
        )

    def data(self, name: str) -> Dataset:
        """A data set by its name."""
        whole = data.load_dataset(name)
        if not self.rehearsal:
            return whole
        return Dataset(
            name, whole.train[:128], whole.validation[:32], whole.test[:64], whole.levels
        )


@dataclass(frozen=True)
class Task:
    """One training and its measurements, or, without a recipe, measurements alone."""

    group: str
    seed: int
    recipe: Recipe | None = None

    @property
    def key(self) -> str:
        """As the name of a folder."""
        return f"{self.group.replace(' ', '-').replace(',', '')}-{self.seed}"


@dataclass(frozen=True)
class Experiment:
    """What is trained, measured, drawn and said. ``revision`` is raised when ``measure`` changes.

    ``measure``: task, flow (None without a recipe), data set and effort to the numbers of a row;
    ``conclude``: all rows to the numbers of the experiment, of which ``checks`` are (what, whether
    it is met); ``draw``: results, a function from a row to its flow, and a folder; ``section``:
    results to Markdown.
    """

    name: str
    title: str
    revision: int
    tasks: Callable[[Effort], list[Task]]
    dataset: Callable[[Task, Effort], Dataset]
    measure: Callable[[Task, Trained, Dataset, Effort], Row]
    conclude: Callable[[list[Row]], Row]
    draw: Callable[[Row, Callable[[Row], Trained], Path, Effort], None]
    section: Callable[[Row], str]


class Watcher(TrainingListener):
    """Is told of tasks, and of the steps of their trainings."""

    def begin(self, experiment: Experiment, tasks: list[Task]) -> None:
        """An experiment begins."""

    def task(self, task: Task, done: bool) -> None:
        """A task begins, or is done."""

    def end(self) -> None:
        """An experiment is over."""


def digest(experiment: Experiment, tasks: list[Task], effort: Effort) -> str:
    """Of all that the rows depend on; equal for two runs of the command that may share their
    finished tasks.
    """
    state = hashlib.sha256(
        f"{experiment.name} {experiment.revision} {effort} {torch.__version__}".encode()
    )
    state.update(json.dumps([asdict(task) for task in tasks], sort_keys=True).encode())
    below = Path(str(training.__file__)).parent
    for path in [
        *sorted(Path(str(reference.__file__)).parent.glob("*.py")),
        *(below / name for name in SOURCES),
    ]:
        state.update(code(path).encode())
    return state.hexdigest()[:10]


def code(path: Path) -> str:
    """What a module does: its source without comments, docstrings and layout."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if (
            isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:]
    return ast.dump(tree)


def conduct(
    experiment: Experiment, effort: Effort, out: Path, parent: Path, watcher: Watcher
) -> Row:
    """Do what is not yet done of an experiment, and write its JSON and pictures into ``out``.

    The tasks have their folders below ``parent``: one that is finished is not begun again, and one
    that was killed goes on.
    """
    tasks = experiment.tasks(effort)
    folder = parent / f"{experiment.name}-{digest(experiment, tasks, effort)}"
    watcher.begin(experiment, tasks)
    rows = []
    for task in tasks:
        watcher.task(task, False)
        rows.append(perform(experiment, task, effort, folder / task.key, watcher))
        watcher.task(task, True)
    results: Row = {
        "experiment": experiment.name,
        "title": experiment.title,
        "revision": experiment.revision,
        "rehearsal": effort.rehearsal,
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in PACKAGES},
        },
        "threads": 1,
        "seconds": sum(row.get("seconds", 0.0) for row in rows),
        "runs": rows,
        **experiment.conclude(rows),
    }
    results = tidy(results)
    out.mkdir(parents=True, exist_ok=True)
    runs.replace_file(
        out / f"{experiment.name}.json", (json.dumps(results, indent=1) + "\n").encode()
    )

    def flow_of(row: Row) -> Trained:
        return runs.load(str(folder / Task(row["group"], row["seed"]).key))

    experiment.draw(results, flow_of, out, effort)
    watcher.end()
    return results


def perform(
    experiment: Experiment, task: Task, effort: Effort, folder: Path, listener: TrainingListener
) -> Row:
    """The row of a task: read if it is there, else trained for and measured."""
    if (folder / RESULT).is_file():
        found: Row = json.loads((folder / RESULT).read_text(encoding="utf-8"))
        return found
    folder.mkdir(parents=True, exist_ok=True)
    dataset = experiment.dataset(task, effort)
    row: Row = {"group": task.group, "seed": task.seed}
    flow = None
    if task.recipe is not None:
        runs.replace_file(folder / runs.CONFIG, task.recipe.to_json().encode())
        training = Training(task.recipe, dataset, folder)
        training.restore()
        training.run(listener)
        flow, epochs = runs.load(str(folder)), runs.metrics(folder)
        row |= {
            "recipe": {
                name: value for name, value in asdict(task.recipe).items() if value is not None
            },
            "steps": epochs[-1]["step"],
            "best_epoch": min(epochs, key=lambda epoch: epoch["validation_nll"])["epoch"],
            "seconds": epochs[-1]["seconds"],
            "curve": [[epoch["step"], epoch["validation_nll"]] for epoch in epochs],
        }
    row = tidy(row | experiment.measure(task, flow, dataset, effort))
    runs.replace_file(folder / RESULT, json.dumps(row).encode())
    return row


def tidy(value: Any) -> Any:
    """Numbers with six digits, arrays as lists, so that files can be read and compared."""
    if isinstance(value, dict):
        return {str(key): tidy(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [tidy(item) for item in value]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (float, np.floating)):
        return float(f"{float(value):.6g}")
    return int(value) if isinstance(value, np.integer) else value


def grouped(rows: list[Row]) -> dict[str, list[Row]]:
    """Group -> its rows, in the order in which they come."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["group"], []).append(row)
    return found


def spread(values: Iterator[float] | list[float]) -> Row:
    """Mean, standard deviation, extremes, and the 95 % interval of the mean by Student's t."""
    from scipy.stats import t

    found = np.array(list(values), dtype=float)
    deviation = float(found.std(ddof=1)) if len(found) > 1 else 0.0
    half = (
        float(t.ppf(0.975, len(found) - 1)) * deviation / len(found) ** 0.5
        if len(found) > 1
        else 0.0
    )
    mean = float(found.mean())
    return {
        "n": len(found),
        "mean": mean,
        "sd": deviation,
        "least": float(found.min()),
        "most": float(found.max()),
        "low": mean - half,
        "high": mean + half,
    }
