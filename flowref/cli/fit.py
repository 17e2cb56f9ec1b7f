"""The commands that train: `flowref fit` and `flowref sample`."""

from __future__ import annotations

import contextlib
import math
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from flowref.training.data import Dataset
    from flowref.training.loop import Training

INTERRUPTED = 130
HEARTBEAT = 10.0


@click.command()
@click.argument("what", metavar="DATASET|RUN", required=False)
@click.option("--list", "listing", is_flag=True, help="Name the data sets.")
@click.option(
    "--data", "path", metavar="PATH", help="Where the files of mnist, cifar10 or celeba are."
)
@click.option(
    "--resume", is_flag=True, help="Go on with the last run of DATASET that was interrupted."
)
@click.option(
    "--runs",
    "parent",
    default="runs",
    show_default=True,
    metavar="PATH",
    help="Folder of the runs.",
)
@click.option("--seed", type=click.IntRange(0), help="Of weights, order and noise.  [default: 0]")
@click.option(
    "--epochs",
    type=click.IntRange(1),
    help="At most; training stops early. The default depends on the data.",
)
@click.option("--batch", type=click.IntRange(2), help="Events in a step.")
@click.option("--rate", type=float, help="First learning rate of Adam.")
@click.option(
    "--size", type=click.IntRange(8, 256), help="Side of the images of celeba.  [default: 32]"
)
@click.option("--limit", type=click.IntRange(40), help="Use so many images only.")
@click.option("--threads", type=click.IntRange(1), help="Of torch; results depend on it.")
@click.option(
    "--audit/--no-audit", default=True, help="Check the laws on the trained flow (default)."
)
def fit(
    what: str | None,
    listing: bool,
    path: str | None,
    resume: bool,
    parent: str,
    audit: bool,
    **choices: Any,
) -> None:
    """Train Real NVP on a data set, then show how well it did, and audit it.

    A run keeps all its files in a folder such as runs/moons-1: weights, metrics, pictures, and the
    report of the audit. Interrupt it with Ctrl-C; flowref fit runs/moons-1 goes on and ends with
    the same weights as if nothing had happened.

    Exit codes: 0 trained, 1 the audit found a violation, 2 usage or data that cannot be read, 3 a
    crash or time-out in the audit, 130 interrupted.
    """
    from flowref.training.data import DESCRIBED
    from flowref.training.extras import package

    if listing or what is None:
        for name, text in DESCRIBED.items():
            click.echo(f"{name:<8}  {text}")
        if not listing:
            raise click.UsageError("name a data set, or the folder of a run to go on with")
        return
    package("torch")
    from flowref.training import fit as training

    folder, dataset = _prepare(what, path, resume, Path(parent), choices)
    click.echo(f"{folder}: {dataset.name}, {len(dataset.train)} to train, {len(dataset.validation)} to stop by, "
               f"{len(dataset.test)} to test on")  # fmt: skip
    with Bar() as bar, _stopping() as stop:
        done = training.train(folder, dataset, bar.listener(dataset), stop)
    if not done:
        click.echo(
            f"flowref: interrupted; this goes on from here:\n    flowref fit {folder}", err=True
        )
        sys.exit(INTERRUPTED)
    summary = training.finish(folder, dataset)
    for line in summary.lines():
        click.echo(line)
    report = None
    if audit:
        from flowref.cli.screen import Screen
        from flowref.reporting.terminal import summary_lines

        with Screen() as screen:
            report = training.verify(folder, screen)
        for line in summary_lines(report)[1:]:
            click.echo(line)
        if not report.complete:
            click.echo(
                f"flowref: the audit was interrupted; this repeats it:\n    flowref fit {folder}",
                err=True,
            )
            sys.exit(INTERRUPTED)
    training.close(folder, summary, report)
    click.echo(
        f"{folder} has the weights, pictures and reports; more samples: flowref sample {folder}"
    )
    sys.exit(report.exit_code if report is not None and report.exit_code != 5 else 0)


def _prepare(
    what: str, path: str | None, resume: bool, parent: Path, choices: dict[str, Any]
) -> tuple[Path, Dataset]:
    """The folder of a run, new or to go on with, and its data; nothing is written before the data
    were read.
    """
    from flowref.model import SpecError
    from flowref.training import fit as training
    from flowref.training import runs
    from flowref.training.data import KNOWN

    folder = Path(what) if runs.is_run(Path(what)) and what not in KNOWN else None
    if folder is None and resume:
        folder = runs.unfinished(parent, what) if what in KNOWN else None
        if folder is None:
            raise SpecError(
                f"{parent} has no interrupted run of {what}; `flowref fit {what}` begins one"
            )
    if folder is None:
        recipe = training.recipe_for(what, path, **choices)
        if path is not None:
            click.echo(f"reading {path}", err=True)
        dataset = training.read(recipe)
        return training.begin(recipe, dataset, parent), dataset
    given = [f"--{name}" for name, value in choices.items() if value is not None]
    if given:
        raise SpecError(
            f"{folder} keeps the recipe that it began with; {', '.join(given)} is for a new run"
        )
    return folder, training.read(training.resumed(folder, path))


@contextlib.contextmanager
def _stopping() -> Iterator[Callable[[], bool]]:
    """Ctrl-C and a polite kill end training after the step in hand; a second Ctrl-C ends it at
    once.
    """
    asked = False

    def ask(number: int, _: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Bar:
    """The progress of a training: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self) -> None:
        self.bar: Any = None

    def __enter__(self) -> Bar:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                Progress,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )

            self.bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[values]}", markup=False),
                TimeElapsedColumn(),
                TextColumn("left at most"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def listener(self, dataset: Dataset) -> Any:
        """What the training loop speaks to."""
        from flowref.training.loop import Listener

        bar, images = self.bar, dataset.levels is not None
        unit, name = (1 / (dataset.dims * math.log(2)), "bits/dim") if images else (1.0, "nll")
        task = bar.add_task(dataset.name, total=None, values="") if bar is not None else None

        class Teller(Listener):
            """Tells of steps and epochs."""

            told = shown = 0.0
            validation = ""

            def step(self, training: Training) -> None:
                """Move the bar, some times a second."""
                now = time.monotonic()
                if bar is None or now - self.shown < 0.2:
                    return
                self.shown = now
                progress = training.progress
                running = unit * progress.nll / max(progress.position, 1)
                bar.update(
                    task,
                    description=f"{dataset.name} epoch {progress.epoch + 1}/{training.recipe.epochs}",
                    total=training.recipe.epochs * training.steps,
                    completed=progress.step,
                    values=f"{name} {running:.3f}{self.validation}",
                )

            def epoch(self, training: Training, row: dict[str, Any]) -> None:
                """Say how it stands."""
                value, best = unit * row["validation_nll"], unit * row["best_nll"]
                self.validation = f", validation {value:.3f}, best {best:.3f}"
                last = training.progress.done
                if not last and time.monotonic() - self.told < HEARTBEAT:
                    return
                self.told = time.monotonic()
                if bar is None or last:
                    click.echo(
                        f"epoch {row['epoch']}/{training.recipe.epochs}: {name} "
                        f"{unit * row['train_nll']:.3f}"
                        f"{self.validation}   {row['seconds']:.0f} s",
                        err=True,
                    )

        return Teller()


@click.command()
@click.argument("run", metavar="RUN")
@click.option(
    "-n", "--number", type=click.IntRange(1), default=64, show_default=True, help="How many."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option(
    "--out",
    metavar="PATH",
    help="A .png to look at or an .npz with the array `samples`.  [default: in RUN]",
)
def sample(run: str, number: int, seed: int, out: str | None) -> None:
    """Draw points or images from a trained flow."""
    from flowref.training.extras import package

    package("torch")
    from flowref.training import sampling

    folder = Path(run)
    path = Path(out) if out is not None else folder / f"samples-{seed}.png"
    sampling.write(folder, number, seed, path)
    click.echo(str(path))
