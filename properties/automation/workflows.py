"""Workflow and action files read as GitHub reads them, as far as these use it: expressions filled
in, conditions decided, shell steps run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from effort import PATIENCE

# The python and the flowref of these properties come first.
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
ROOT = Path(__file__).parent.parent.parent
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


def read(path: Path) -> dict[str, Any]:
    """The content of a YAML file; the key `on` stays a text."""
    loader = yaml.BaseLoader(path.read_text(encoding="utf-8"))
    content = loader.get_single_data()
    assert isinstance(content, dict)
    return content


def filled(text: str, values: Mapping[str, str]) -> str:
    """A text with its expressions filled in; one without a value is a KeyError."""
    return EXPRESSION.sub(lambda one: values[one[1]], text)


def wanted(step: Mapping[str, Any], values: Mapping[str, str]) -> bool:
    """Whether a step runs; a condition is `name == 'text'`."""
    condition = step.get("if")
    if condition is None:
        return True
    match = re.fullmatch(r"([\w.-]+) == '([^']*)'", condition)
    assert match is not None, condition
    return values[match[1]] == match[2]


def inputs(action: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, str]:
    """What an action's expressions stand for, with defaults where nothing is given."""
    assert set(given) <= set(action["inputs"])
    values = {}
    for name, one in action["inputs"].items():
        assert name in given or "default" in one, name
        values[f"inputs.{name}"] = given.get(name, one.get("default", ""))
    return values


def run(
    action: Mapping[str, Any], given: Mapping[str, str], folder: Path, **environment: str
) -> tuple[int, str, dict[str, str]]:
    """Run the shell steps of a composite action in a folder: exit code, what was printed, outputs."""
    values = inputs(action, given) | {"github.action_path": str(ROOT)}
    output, said = folder / "github-output", []
    for step in action["runs"]["steps"]:
        if not wanted(step, values):
            continue
        assert step["shell"] == "bash"
        done = subprocess.run(
            # As GitHub calls it.
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", filled(step["run"], values)],
            cwd=folder,
            env={
                **os.environ,
                "PATH": PATH,
                **environment,
                "GITHUB_OUTPUT": str(output),
                **{key: filled(value, values) for key, value in step.get("env", {}).items()},
            },
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        said.append(done.stdout + done.stderr)
        if done.returncode:
            break
    lines = output.read_text().splitlines() if output.exists() else []
    return done.returncode, "\n".join(said), dict(line.split("=", 1) for line in lines)


def steps(workflow: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The steps of all jobs of a workflow."""
    for job in workflow["jobs"].values():
        yield from job["steps"]
