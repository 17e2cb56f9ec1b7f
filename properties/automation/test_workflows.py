"""The workflows of this repository: what GitHub would refuse, and what they call that is not there."""

from __future__ import annotations

import configparser
import copy
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click import Group

from automation.workflows import EXPRESSION, ROOT, read, steps
from flowref.cli import main

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TOP = {"name", "on", "permissions", "concurrency", "env", "defaults", "jobs"}
JOB = {
    "name", "needs", "runs-on", "timeout-minutes", "strategy", "steps", "permissions", "environment", "env", "if",
    "concurrency",
}  # fmt: skip
STEP = {"name", "id", "uses", "with", "run", "env", "if", "shell", "working-directory"}
EVENTS = {"push", "pull_request", "schedule", "workflow_dispatch"}
CONTEXTS = {"github", "matrix", "inputs", "steps", "needs", "env", "runner", "secrets"}


def faults(workflow: dict[str, Any]) -> Iterator[str]:
    """What GitHub refuses or a reviewer would, a sentence each."""
    for key in set(workflow) - TOP:
        yield f"unknown key {key}"
    yield from (f"unknown event {event}" for event in set(workflow.get("on", {})) - EVENTS)
    if "permissions" not in workflow:
        yield "no permissions: the default may be to write"
    for name, job in workflow["jobs"].items():
        yield from (f"unknown key {key} of job {name}" for key in set(job) - JOB)
        yield from (
            f"job {name} lacks {key}"
            for key in ("runs-on", "timeout-minutes", "steps")
            if key not in job
        )
        needs = job.get("needs", [])
        for other in [needs] if isinstance(needs, str) else needs:
            if other not in workflow["jobs"]:
                yield f"job {name} needs {other}, which is none"
        axes = set(job.get("strategy", {}).get("matrix", {}))
        for step in job["steps"]:
            yield from _faults_of_step(step, axes)


def _faults_of_step(step: dict[str, Any], axes: set[str]) -> Iterator[str]:
    yield from (f"unknown key {key} of a step" for key in set(step) - STEP)
    if ("uses" in step) is ("run" in step):
        yield "a step has either uses or run"
    action = step.get("uses", "./")
    if not action.startswith("./") and not re.fullmatch(r"[\w-]+/[\w/-]+@[0-9a-f]{40}", action):
        yield f"{action} is not pinned to a commit"
    if "${{" in step.get("run", ""):
        yield "an expression in a script, where its value is read as a program"
    text = "\n".join(_texts(step))
    if not text.count("${{") == text.count("}}") == len(EXPRESSION.findall(text)):
        yield "an expression is not closed"
    for expression in EXPRESSION.findall(text):
        context, _, rest = expression.partition(".")
        if context not in CONTEXTS:
            yield f"unknown context in {expression}"
        if context == "matrix" and rest not in axes:
            yield f"no axis {rest}"


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    else:
        yield str(value)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_are_sound(path: Path) -> None:
    """Known keys and events, jobs with a time limit, actions pinned to commits with the version
    beside them, least permissions, and expressions that mean something.
    """
    assert list(faults(read(path))) == []
    for line in path.read_text().splitlines():
        assert "uses:" not in line or "./" in line or re.search(r"# v\d+(\.\d+)*$", line)


SPOILED = {
    "unknown key": lambda w, s: s.update(usess="x"),
    "not pinned": lambda w, s: s.update(uses="actions/checkout@v4"),
    "either uses or run": lambda w, s: s.update(run="true"),
    "not closed": lambda w, s: s.update(name="${{ github.ref"),
    "unknown context": lambda w, s: s.update(name="${{ foo.bar }}"),
    "no axis": lambda w, s: s.update(name="${{ matrix.nothing }}"),
    "in a script": lambda w, s: (s.pop("uses"), s.update(run="echo ${{ github.ref }}")),
    "no permissions": lambda w, s: w.pop("permissions"),
    "unknown event": lambda w, s: w["on"].update(pusch=""),
    "needs nobody": lambda w, s: next(iter(w["jobs"].values())).update(needs="nobody"),
    "lacks timeout": lambda w, s: next(iter(w["jobs"].values())).pop("timeout-minutes"),
}


@pytest.mark.parametrize("said", SPOILED)
def test_unsound_workflows_are_seen(said: str) -> None:
    """The property above can fail: each of these spoils one thing."""
    workflow = copy.deepcopy(read(WORKFLOWS[0]))
    SPOILED[said](workflow, next(steps(workflow)))  # type: ignore[no-untyped-call]  # a lambda of the table
    first, *_, last = said.split()
    assert any(first in fault and last in fault for fault in faults(workflow))


def commands() -> list[tuple[str, list[str]]]:
    """Every call of a program by a workflow, as words."""
    lines = [
        (path.stem, line)
        for path in WORKFLOWS
        for step in steps(read(path))
        for line in step.get("run", "").splitlines()
    ]
    called = [(name, shlex.split(line.partition("||")[0])) for name, line in lines]
    return [(name, words) for name, words in called if words and words[0] in ("tox", "python")]


@pytest.mark.parametrize(("name", "words"), commands(), ids=lambda value: str(value)[:40])
def test_commands_of_workflows_exist(name: str, words: list[str]) -> None:
    """Each step of tox is one of tox.ini, each command and option one of flowref, each file there."""
    if words[0] != "tox":
        assert words[:4] == ["python", "-m", "pip", "install"]
        return
    ini = configparser.ConfigParser()
    ini.read(ROOT / "tox.ini")
    named = words[words.index("-e") + 1].split(",")
    assert all(f"testenv:{one}" in ini for one in named)
    if words[1] != "exec":
        return
    program, *rest = words[words.index("--") + 1 :]
    if program == "python":
        assert (ROOT / rest[0]).is_file()
        return
    assert program == "flowref"
    assert isinstance(main, Group)
    options = {option for one in main.commands[rest[0]].params for option in one.opts}
    used = {word.partition("=")[0] for word in rest[1:] if re.match(r"--?[a-z]", word)}
    assert used <= options


def test_scripts_are_bash() -> None:
    """Every script of the workflows and the action is one that bash can read."""
    files = [*WORKFLOWS, ROOT / "action.yml"]
    contents = [read(path) for path in files]
    scripts = [
        step["run"]
        for content in contents
        for step in (steps(content) if "jobs" in content else content["runs"]["steps"])
        if "run" in step
    ]
    assert len(scripts) > 5
    for script in scripts:
        subprocess.run(["bash", "-n", "-c", script], check=True)


def test_all_shards_are_merged() -> None:
    """The nightly audit runs as many shards as it puts together, each of that number."""
    jobs = read(ROOT / ".github" / "workflows" / "nightly.yml")["jobs"]
    numbers = jobs["audit"]["strategy"]["matrix"]["shard"]
    assert numbers == [str(n + 1) for n in range(len(numbers))]
    text = str(jobs["audit"]["steps"])
    assert f'--shard "$SHARD/{len(numbers)}"' in text
    merged = re.findall(r"shard-(\d+)\.json", str(jobs["judge"]["steps"]))
    assert merged == numbers
