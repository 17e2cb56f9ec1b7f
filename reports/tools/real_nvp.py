"""Run the experiments of Real NVP, and write `reports/real-nvp.md` from what they measured.

Usage: `python reports/tools/real_nvp.py E4 | E5 | E7 | E8 | E9 | E10 | E11 | all | page`. An experiment writes
its numbers as JSON and its pictures into `reports/real-nvp/`, then the page; `page` writes the page
alone. All take about a quarter of an hour on one core. A run that was killed goes on where it was,
and finished seeds are not trained again. Exit codes: 0, 1 if a hard check is not met, 130 if
interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # sums depend on it; before torch is imported

import torch

from flowref.cli.screen import BAR, ELAPSED, LEFT, Bar, Pulse
from flowref.training import runs
from flowref.training.loop import Training
from real_nvp_page import EXPERIMENTS
from real_nvp_page.experiment import Effort, Experiment, Row, Task, Watcher, conduct

REPORTS = Path(__file__).parents[1]
FOLDER, PAGE = "real-nvp", "real-nvp.md"
HEARTBEAT, REDRAWN = 15.0, 0.2

HEAD = """# Training Real NVP: what notes claim, measured

Two sets of teaching notes describe experiments with Real NVP (Dinh et al., arXiv:1605.08803). The
first build flows from couplings, batch normalization and 1x1 convolutions; the second implement the
paper and say what was needed to train it. Their claims are paraphrased and measured again, as far as
a single core can, with several seeds. Where a claim is not seen, the page says so: that is no
refutation, since models and trainings here are smaller.

Each experiment is one command, such as `python reports/tools/real_nvp.py E5`; `all` runs the seven.
Numbers, settings and seeds are in [real-nvp/](real-nvp), one JSON file per experiment, and this
page is written from these files alone. The models are those of `flowref.reference`, trained by
`flowref.training` with Adam along half a cosine; what is measured are the weights with the best
validation value, on points or images that training has not seen. NLL is the mean negative
log-density, in nats; lower is better."""


class Progress(Watcher):
    """A bar on a terminal, and a line for each task elsewhere."""

    def __init__(self) -> None:
        percent = "{task.percentage:3.0f} %"
        self.bar = Bar("{task.description}", BAR, percent, ELAPSED, "left", LEFT)
        self.redraw, self.heartbeat = Pulse(REDRAWN), Pulse(HEARTBEAT)
        self.label, self.total, self.done = "", 0, 0

    def begin(self, experiment: Experiment, tasks: list[Task]) -> None:
        """Show an empty bar."""
        self.label, self.total, self.done = experiment.name, len(tasks), 0
        self.bar.__enter__()
        self.bar.begin(experiment.name, len(tasks))

    def task(self, task: Task, done: bool) -> None:
        """Name the task, or count it."""
        self.done += done
        words = f"{self.label} {task.group}, seed {task.seed}"
        self.bar.update(description=words, completed=self.done)
        if done and not self.bar.drawn:
            self._line(f"{words}: {self.done}/{self.total}")

    def step(self, training: Training) -> None:
        """Move the bar within a task."""
        part = training.progress.step / (training.recipe.epochs * training.steps)
        if self.bar.drawn and self.redraw.due():
            self.bar.update(completed=self.done + part)
        elif not self.bar.drawn and self.heartbeat.due():
            self._line(f"{self.label}: {self.done}/{self.total}, and {part:.0%} of the next")

    def _line(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)
        self.heartbeat.restart()

    def end(self) -> None:
        """Take the bar away."""
        self.bar.__exit__()


def page(out: Path) -> str:
    """The page, from the JSON files that there are."""
    parts, missing = [HEAD], []
    for experiment in EXPERIMENTS:
        path = out / FOLDER / f"{experiment.name}.json"
        results: Row = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        if results.get("revision") != experiment.revision:
            missing.append(experiment.name)
            continue
        if results["rehearsal"]:
            parts.append("**A rehearsal: the numbers below say nothing.**")
        parts += [f"## {experiment.name} · {experiment.title}", experiment.section(results)]
        versions = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
        parts.append(
            f"*{len(results['runs'])} tasks, {results['seconds'] / 60:.1f} minutes of training on "
            f"one core; {versions}.*"
        )
    if missing:
        parts.append(f"Not run yet, or not since the experiment was changed: {', '.join(missing)}.")
    blocks = [block for part in parts for block in part.strip().split("\n\n")]
    # Tables and lists keep their lines; others are as long as they are, since numbers of any length
    # stand in them.
    return (
        "\n\n".join(block if block[0] in "|-" else " ".join(block.split()) for block in blocks)
        + "\n"
    )


def write_page(out: Path) -> None:
    """Write it beside the folder of the numbers."""
    runs.replace_file(out / PAGE, page(out).encode())


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(
        prog="real_nvp.py", description=str(__doc__).partition("\n")[0]
    )
    names = [experiment.name for experiment in EXPERIMENTS]
    parser.add_argument("what", nargs="+", choices=[*names, "all", "page"])
    parser.add_argument(
        "--out", type=Path, default=REPORTS, help="folder of the page  [default: reports]"
    )
    parser.add_argument(
        "--runs",
        type=Path,
        default=REPORTS.parent / ".flowref" / "real-nvp",
        help="folder of weights and states",
    )
    parser.add_argument(
        "--rehearse",
        action="store_true",
        help="tiny trainings, to try the command; give another --out",
    )
    chosen = parser.parse_args(arguments)
    if chosen.rehearse and chosen.out.resolve() == REPORTS.resolve():
        parser.error("--rehearse would overwrite measured numbers; give another folder with --out")
    torch.set_num_threads(1)
    met, watcher = True, Progress()
    try:
        for experiment in EXPERIMENTS:
            if not {experiment.name, "all"} & set(chosen.what):
                continue
            results = conduct(
                experiment, Effort(chosen.rehearse), chosen.out / FOLDER, chosen.runs, watcher
            )
            for check in results["checks"]:
                met &= check["met"] or chosen.rehearse
                print(f"{experiment.name}: {'met' if check['met'] else 'NOT MET'}: {check['what']}")
            write_page(chosen.out)
    except KeyboardInterrupt:
        watcher.end()
        print(
            "interrupted; the same command goes on: python reports/tools/real_nvp.py "
            f"{' '.join(chosen.what)}",
            file=sys.stderr,
        )
        return 130
    write_page(chosen.out)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
