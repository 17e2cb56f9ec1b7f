"""The commands that train: `flowref fit` and `flowref sample`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flowref.cli.help import Command
from flowref.cli.interruption import INTERRUPTED, stopping
from flowref.training.flows import FLOWS

if TYPE_CHECKING:
    from flowref.training.data import Dataset


@click.command(
    cls=Command,
    examples=(
        ("flowref fit moons", "train Real NVP on points, and audit it"),
        ("flowref fit runs/moons-1", "resume an interrupted run"),
        ("flowref fit --list", "the data sets"),
    ),
)
@click.argument("what", metavar="DATASET|RUN", required=False)
@click.option("--list", "listing", is_flag=True, help="List the data sets.")
@click.option(
    "--data", "path", metavar="PATH", help="Folder with the files of mnist, cifar10 or celeba."
)
@click.option("--resume", is_flag=True, help="Resume the last interrupted run of DATASET.")
@click.option(
    "--runs",
    "parent",
    default="runs",
    show_default=True,
    metavar="PATH",
    help="Folder of the runs.",
)
@click.option(
    "--seed", type=click.IntRange(0), help="Seed of weights, order and noise.  [default: 0]"
)
@click.option(
    "--epochs",
    type=click.IntRange(1),
    help="Largest number of epochs; training stops early. The default depends on the data.",
)
@click.option("--batch", type=click.IntRange(2), help="Batch size.")
@click.option("--rate", type=float, help="First learning rate of Adam.")
@click.option(
    "--size", type=click.IntRange(8, 256), help="Side of the images of celeba.  [default: 32]"
)
@click.option("--limit", type=click.IntRange(40), help="Use only this many images.")
@click.option("--threads", type=click.IntRange(1), help="Threads of torch; results depend on it.")
@click.option(
    "--flow",
    type=click.Choice(FLOWS),
    help="Family of flows that is fitted to points.  [default: real-nvp]",
)
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
    """Train Real NVP, or another flow, on a data set, show how well it did, and audit it.

    A run keeps all its files in a folder such as runs/moons-1: weights, metrics, pictures, and the
    report of the audit. Interrupt it with Ctrl-C; flowref fit runs/moons-1 resumes it and ends with
    the same weights as an uninterrupted run.

    Exit codes: 0 trained, 1 the audit found a violation, 2 usage or data that cannot be read, 3 a
    crash or time-out in the audit, 130 interrupted.
    """
    from flowref.training.data import DESCRIBED
    from flowref.training.extras import package

    if listing or what is None:
        for name, text in DESCRIBED.items():
            click.echo(f"{name:<8}  {text}")
        if not listing:
            raise click.UsageError("name a data set, or the folder of a run to resume")
        return
    package("torch")
    from flowref.cli.training_progress import TrainingProgress
    from flowref.training import fit as training

    folder, dataset = _prepare(what, path, resume, Path(parent), choices)
    click.echo(
        f"{folder}: {dataset.name}, {len(dataset.train)} to train, {len(dataset.validation)} to "
        f"stop by, {len(dataset.test)} to test on"
    )
    with TrainingProgress(dataset) as progress, stopping() as stop:
        done = training.train_run(folder, dataset, progress, stop)
    if not done:
        click.echo(f"flowref: interrupted; this resumes it:\n    flowref fit {folder}", err=True)
        sys.exit(INTERRUPTED)
    click.echo("evaluating on test data", err=True)
    summary = training.finish(folder, dataset)
    for line in summary.lines():
        click.echo(line)
    report = None
    if audit:
        from flowref.cli.audit_progress import AuditProgress
        from flowref.reporting.audit_summary import summary_lines

        with AuditProgress() as shown:
            report = training.verify(folder, shown)
        for line in summary_lines(report):
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
    """The folder of a new or resumed run, and its data; nothing is written before the data are
    read.
    """
    from flowref.model import SpecError
    from flowref.training import fit as training
    from flowref.training import runs
    from flowref.training.data import NAMES

    folder = Path(what) if runs.is_run(Path(what)) and what not in NAMES else None
    if folder is None and resume:
        folder = runs.unfinished(parent, what) if what in NAMES else None
        if folder is None:
            raise SpecError(
                f"{parent} has no interrupted run of {what}; `flowref fit {what}` begins one"
            )
    if folder is None:
        recipe = training.recipe_for(what, path, **choices)
        if path is not None:
            click.echo(f"reading {path}", err=True)
        dataset = training.recipe_dataset(recipe)
        return training.begin(recipe, dataset, parent), dataset
    fixed = [f"--{name}" for name, value in choices.items() if value is not None]
    if fixed:
        raise SpecError(
            f"{folder} keeps the recipe that it began with; {', '.join(fixed)} is for a new run"
        )
    return folder, training.recipe_dataset(training.resumed(folder, path))


@click.command(
    cls=Command,
    examples=(("flowref sample runs/moons-1 -n 1000 --out points.npz", "an array of samples"),),
)
@click.argument("run", metavar="RUN")
@click.option(
    "-n",
    "--number",
    type=click.IntRange(1),
    default=64,
    show_default=True,
    help="Number of samples.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option(
    "--out",
    metavar="PATH",
    help="A .png image, or an .npz with the array `samples`.  [default: in RUN]",
)
def sample(run: str, number: int, seed: int, out: str | None) -> None:
    """Draw points or images from a trained flow."""
    from flowref.training.extras import package

    package("torch")
    from flowref.training import sampling

    folder = Path(run)
    path = Path(out) if out is not None else folder / f"samples-{seed}.png"
    sampling.write_samples(folder, number, seed, path)
    click.echo(str(path))
