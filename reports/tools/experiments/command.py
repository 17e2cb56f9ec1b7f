"""The command of a page of experiments: it runs what was asked for and writes the page."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from experiments.experiment import Effort, Experiment, Row, Task, Watcher, conduct
from flowref.cli.screen import BAR, ELAPSED, LEFT, Bar, Pulse
from flowref.training import runs
from flowref.training.loop import Training

REPORTS = Path(__file__).parents[2]
HEARTBEAT, REDRAWN = 15.0, 0.2


@dataclass(frozen=True)
class Page:
    """A page ``reports/<name>.md``, its numbers and pictures in the folder ``reports/<name>``, and
    the script that makes them; ``head``: its first lines.
    """

    name: str
    script: str
    head: str
    experiments: Sequence[Experiment]

    def text(self, out: Path) -> str:
        """The page, from the JSON files that there are."""
        parts, missing = [self.head], []
        for experiment in self.experiments:
            path = out / self.name / f"{experiment.name}.json"
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
            parts.append(
                f"Not run yet, or not since the experiment was changed: {', '.join(missing)}."
            )
        blocks = [block for part in parts for block in part.strip().split("\n\n")]
        # Tables and lists keep their lines; others are as long as they are, since numbers of any
        # length stand in them.
        return (
            "\n\n".join(block if block[0] in "|-" else " ".join(block.split()) for block in blocks)
            + "\n"
        )

    def write(self, out: Path) -> None:
        """Write it beside the folder of the numbers."""
        runs.replace_file(out / f"{self.name}.md", self.text(out).encode())


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


def main(page: Page, arguments: list[str] | None = None) -> int:
    """Run what was asked for; returns the exit code: 0, 1 if a hard check is not met, 130 if
    interrupted.
    """
    parser = argparse.ArgumentParser(
        prog=page.script, description=f"Run experiments, and write reports/{page.name}.md."
    )
    names = [experiment.name for experiment in page.experiments]
    parser.add_argument("what", nargs="+", choices=[*names, "all", "page"])
    parser.add_argument(
        "--out", type=Path, default=REPORTS, help="folder of the page  [default: reports]"
    )
    parser.add_argument(
        "--runs",
        type=Path,
        default=REPORTS.parent / ".flowref" / page.name,
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
        for experiment in page.experiments:
            if not {experiment.name, "all"} & set(chosen.what):
                continue
            results = conduct(
                experiment, Effort(chosen.rehearse), chosen.out / page.name, chosen.runs, watcher
            )
            for check in results["checks"]:
                met &= check["met"] or chosen.rehearse
                print(f"{experiment.name}: {'met' if check['met'] else 'NOT MET'}: {check['what']}")
            page.write(chosen.out)
    except KeyboardInterrupt:
        watcher.end()
        print(
            f"interrupted; the same command goes on: python reports/tools/{page.script} "
            f"{' '.join(chosen.what)}",
            file=sys.stderr,
        )
        return 130
    page.write(chosen.out)
    return 0 if met else 1
