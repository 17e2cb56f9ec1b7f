"""A small project as its owner writes it, and pytest run in it as its owner runs it."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import flowref
from effort import PATIENCE

ROOT = Path(flowref.__file__).parents[1]
# Where flowref is installed, pytest finds the plugin by itself.
INSTALLED = "flowref" in {entry.name for entry in importlib.metadata.entry_points(group="pytest11")}
PLUGIN = () if INSTALLED else ("-p", "flowref.pytest.plugin")

FLOWS = """
import torch


class Shift(torch.nn.Module):
    def __init__(self, bug=0.0):
        super().__init__()
        self.log_scale = torch.nn.Parameter(torch.tensor([0.1, -0.2, 0.3]))
        self.bug = bug

    def forward(self, x):
        return x * self.log_scale.exp(), (self.log_scale.sum() + self.bug).expand(len(x))

    def inverse(self, z):
        return z * (-self.log_scale).exp(), -self.log_scale.sum().expand(len(z))


def wrong():
    return Shift(0.01)
"""
SETTINGS = """
[tool.pytest.ini_options]
filterwarnings = ["error"]
pythonpath = ["."]
"""


@dataclass(frozen=True)
class Ran:
    """What a run printed, line by line, and its exit code."""

    code: int
    text: str

    @property
    def lines(self) -> list[str]:
        """What it printed."""
        return self.text.splitlines()

    @property
    def last(self) -> str:
        """How many tests did what."""
        return self.lines[-1].strip("= ")


def write(folder: Path, files: dict[str, str]) -> None:
    """Files of a project."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def run(folder: Path, *arguments: str) -> Ran:
    """Run pytest in a folder, in a process of its own."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTEST")
    }
    environment |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *PLUGIN, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return Ran(done.returncode, (done.stdout + done.stderr).strip())
