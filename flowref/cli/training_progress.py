"""The progress of training: a bar in a terminal, a regular line elsewhere."""

from __future__ import annotations

import math
from typing import Any

import click

from flowref.cli.screen import BAR, ELAPSED, LEFT, Bar, Pulse
from flowref.training.data import Dataset
from flowref.training.flows import MATCHED
from flowref.training.loop import Training, TrainingListener

HEARTBEAT = 10.0
REDRAWN = 0.2


class TrainingProgress(TrainingListener):
    """Shows steps and epochs, for images in bits per dimension. A context manager."""

    def __init__(self, dataset: Dataset) -> None:
        images = dataset.levels is not None
        self.dataset = dataset
        self.unit = 1 / (dataset.dims * math.log(2)) if images else 1.0
        self.name = "bits/dim" if images else "nll"
        self.validation = ""
        self.redraw = Pulse(REDRAWN, at_once=True)
        self.heartbeat = Pulse(HEARTBEAT, at_once=True)
        values = "{task.fields[values]}"
        self.bar = Bar("{task.description}", BAR, values, ELAPSED, "left at most", LEFT)

    def __enter__(self) -> TrainingProgress:
        self.bar.__enter__()
        self.bar.begin(self.dataset.name, values="")
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.__exit__(*error)

    def _shown(self, training: Training) -> str:
        return "loss" if training.recipe.flow in MATCHED else self.name

    def step(self, training: Training) -> None:
        """Update the bar, a few times a second."""
        if not self.bar.drawn or not self.redraw.due():
            return
        progress, epochs = training.progress, training.recipe.epochs
        running = self.unit * progress.nll / max(progress.position, 1)
        self.bar.update(
            description=f"{self.dataset.name} epoch {progress.epoch + 1}/{epochs}",
            total=epochs * training.steps,
            completed=progress.step,
            values=f"{self._shown(training)} {running:.3f}{self.validation}",
        )

    def epoch(self, training: Training, row: dict[str, Any]) -> None:
        """Print the losses of an epoch."""
        value, best = self.unit * row["validation_nll"], self.unit * row["best_nll"]
        self.validation = f", validation {value:.3f}, best {best:.3f}"
        last = training.progress.done
        if not last and not self.heartbeat.due():
            return
        if not self.bar.drawn or last:
            values = f"{self._shown(training)} {self.unit * row['train_nll']:.3f}{self.validation}"
            count = f"epoch {row['epoch']}/{training.recipe.epochs}"
            with self.bar.paused():
                click.echo(f"{count}: {values}   {row['seconds']:.0f} s", err=True)
