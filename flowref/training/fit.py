"""The stages of a run: begin, train or resume, evaluate, plot, audit; each can be repeated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from flowref.auditing.audit_run import conduct
from flowref.auditing.options import AuditListener, Options
from flowref.auditing.pool import Limits
from flowref.model import SpecError, Status
from flowref.reporting.report import Report
from flowref.training import data, plots, runs
from flowref.training.evaluation import Summary, evaluate_run
from flowref.training.extras import RunError
from flowref.training.families import FAMILIES
from flowref.training.flows import REAL_NVP
from flowref.training.loop import Training, TrainingListener
from flowref.training.models import build
from flowref.training.recipes import RECIPES, Recipe

# Seconds for one law, and seconds after which no further law is started.
LAW_SECONDS, AUDIT_SECONDS = 300.0, 120.0


def recipe_for(dataset: str, path: str | None = None, **changes: Any) -> Recipe:
    """Returns the recipe of a data set, with changes by the user; None leaves the default."""
    if dataset not in RECIPES:
        data.load_dataset(dataset)  # raises if there is no such data set
    changed = {key: value for key, value in changes.items() if value is not None}
    flow = changed.get("flow", REAL_NVP)
    if flow != REAL_NVP:
        if dataset not in data.DRAWN:
            raise SpecError(
                f"{flow} is fitted to points ({', '.join(data.DRAWN)}); {dataset} takes {REAL_NVP}"
            )
        changed = {"model": dict(FAMILIES[flow][1]), **changed}
    return replace(
        RECIPES[dataset], path=None if path is None else str(Path(path).resolve()), **changed
    )


def begin(recipe: Recipe, dataset: data.Dataset, parent: Path) -> Path:
    """Creates the folder of a run with its recipe. Raises `SpecError` if the model does not take
    the data.
    """
    try:
        build(recipe, dataset.event_shape, dataset.levels)
    except ValueError as error:
        raise SpecError(
            f"the model does not take the data of {dataset.name}: {error}; give data of that size"
        ) from None
    folder = runs.new_folder(parent, recipe.dataset)
    runs.replace_file(folder / runs.CONFIG, recipe.to_json().encode())
    return folder


def recipe_dataset(recipe: Recipe) -> data.Dataset:
    """Loads the data of a recipe."""
    return data.load_dataset(recipe.dataset, recipe.path, recipe.size, recipe.limit)


def train_run(
    folder: Path,
    dataset: data.Dataset,
    listener: TrainingListener,
    stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Trains from the saved state of the run; returns True when it is finished, False if ``stop``
    returned True.

    Torch uses the recipe's number of threads meanwhile.
    """
    recipe, threads = runs.recipe_of(folder), torch.get_num_threads()
    torch.set_num_threads(recipe.threads)
    try:
        training = Training(recipe, dataset, folder)
        training.restore()
        return training.run(listener, stop)
    finally:
        torch.set_num_threads(threads)


def finish(folder: Path, dataset: data.Dataset) -> Summary:
    """Evaluates a trained flow on test data, and draws the plots."""
    recipe = runs.recipe_of(folder)
    summary = evaluate_run(folder, recipe, dataset)
    plots.draw_plots(folder, recipe, dataset, summary)
    return summary


def verify(folder: Path, listener: AuditListener, jobs: int = 2) -> Report:
    """Audits the trained flow with the quick profile, like a flow of any library; saves the report
    in the folder.
    """
    options = Options(
        profile="quick",
        jobs=jobs,
        limits=Limits(LAW_SECONDS, 2048),
        budget=AUDIT_SECONDS,
        command=f"flowref audit {folder}",
    )
    report = conduct([str(folder)], (), options, listener)
    report.save(folder / runs.AUDIT)
    return report


def close(folder: Path, summary: Summary, report: Report | None) -> Summary:
    """Writes the summary, which marks the run as finished; ``report``: the audit, if there
    is one.
    """
    tally: dict[str, int] = {}
    if report is not None:
        counts = {
            str(status): sum(verdict.status is status for verdict in report.verdicts)
            for status in Status
        }
        tally = {name: count for name, count in counts.items() if count}
    summary = replace(summary, audit=tally)
    runs.replace_file(folder / runs.SUMMARY, summary.to_json().encode())
    return summary


def resumed(folder: Path, path: str | None) -> Recipe:
    """Returns the recipe of a run to resume; ``path``: where the data are now, if they were moved.

    Raises `RunError` if the run is finished.
    """
    recipe = runs.recipe_of(folder)
    if (folder / runs.SUMMARY).is_file():
        raise RunError(
            f"{folder} is finished; `flowref fit {recipe.dataset}` begins another run, and "
            f"`flowref sample {folder}` draws from "
            "this one"
        )
    if path is not None:
        if recipe.path is None:
            raise SpecError(f"{folder} was trained on {recipe.dataset}, which needs no --data")
        recipe = replace(recipe, path=str(Path(path).resolve()))
        runs.replace_file(folder / runs.CONFIG, recipe.to_json().encode())
    return recipe
