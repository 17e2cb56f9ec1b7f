"""Install the lowest versions that flowref declares for its dependencies, beside what is there."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def lowest() -> list[str]:
    """Each dependency at its lower bound, as pip reads it."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    return [requirement.replace(">=", "==") for requirement in project["dependencies"]]


if __name__ == "__main__":
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *lowest()], check=True)
