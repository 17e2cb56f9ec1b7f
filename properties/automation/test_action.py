"""The action and the hook of this repository, by their very commands, in a project of their own."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

import flowref
from automation.workflows import PATH, ROOT, filled, inputs, read, run, wanted
from effort import PATIENCE
from rows import DEEP

FLOWS = '''
import torch


class Right:
    event_shape = (3,)

    def forward(self, x):
        return 2 * x, 3 * torch.full((len(x),), 2.0, dtype=x.dtype).log()

    def inverse(self, z):
        return z / 2, -3 * torch.full((len(z),), 2.0, dtype=z.dtype).log()


class Wrong(Right):
    """One factor of three is missing."""

    def inverse(self, z):
        return z / 2, -2 * torch.full((len(z),), 2.0, dtype=z.dtype).log()


def make(which="Right"):
    return {"Right": Right, "Wrong": Wrong}[which]()
'''
LAWS = "map/log-det[inverse],map/log-det"
GIVEN = {"install": "false", "laws": LAWS, "profile": "quick", "options": "-j 1"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with two flows in a package."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "flows.py").write_text(FLOWS)
    (tmp_path / "job.md").write_text("")
    return tmp_path


@pytest.fixture(scope="module")
def action() -> dict[str, Any]:
    """The action, as its file has it."""
    return read(ROOT / "action.yml")


def acted(
    action: dict[str, Any], project: Path, *targets: str, **given: str
) -> tuple[int, str, dict[str, str]]:
    """The action on targets of the project."""
    return run(
        action,
        {**GIVEN, "targets": "\n".join(targets), **given},
        project,
        GITHUB_STEP_SUMMARY=str(project / "job.md"),
        PYTHONPATH=str(ROOT),
    )


@DEEP
def test_the_action_passes_a_correct_flow(action: dict[str, Any], project: Path) -> None:
    """Green: exit 0, and every file that it promises, on a target whose spec a shell would tear."""
    code, said, outputs = acted(action, project, "mine/flows.py:make?which=Right&event=3", "")
    assert (code, outputs) == (0, {"exit-code": "0"}), said
    folder = project / "flowref-report"
    assert json.loads((folder / "badge.json").read_text())["color"] == "brightgreen"
    assert {path.name for path in folder.iterdir()} == {
        "report.json", "junit.xml", "report.sarif", "badge.json", "summary.md", "report.html",
    }  # fmt: skip
    assert (project / "job.md").read_text() == (folder / "summary.md").read_text()


def test_the_action_fails_where_people_look(action: dict[str, Any], project: Path) -> None:
    """Red: exit 1, a mark at the line of the method, a failure in JUnit, a result in SARIF, the
    failure in the summary of the job.
    """
    code, said, outputs = acted(action, project, "mine/flows.py:Right", "mine/flows.py:Wrong")
    assert (code, outputs["exit-code"]) == (1, "1"), said
    line = FLOWS[: FLOWS.rindex("def inverse")].count("\n") + 1
    assert f"::error file=mine/flows.py,line={line}," in said
    folder = project / "flowref-report"
    assert ET.parse(folder / "junit.xml").getroot().attrib["failures"] == "1"
    (result,) = json.loads((folder / "report.sarif").read_text())["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == line
    assert "1 violation" in (project / "job.md").read_text()


@DEEP
def test_the_action_may_only_tell(action: dict[str, Any], project: Path) -> None:
    """With fail: false a violation leaves the step green and the exit code among the outputs; what
    cannot be audited at all fails all the same.
    """
    code, said, outputs = acted(action, project, "mine/flows.py:Wrong", fail="false")
    assert (code, outputs["exit-code"]) == (0, "1"), said
    code, said, outputs = acted(action, project, "mine/flows.py:Absent", fail="false")
    assert (code, outputs["exit-code"]) == (2, "2"), said


def test_inputs_are_no_program(action: dict[str, Any], project: Path) -> None:
    """What stands in an input is never run: it reaches the scripts as a variable, and expressions
    stand nowhere else.
    """
    for step in action["runs"]["steps"]:
        assert "${{" not in step["run"]
    acted(action, project, '$(touch ran)"; touch ran; `touch ran`', laws=f"{LAWS}';touch ran;'")
    assert not list(project.rglob("ran"))


def test_the_installation_is_the_action_itself(action: dict[str, Any]) -> None:
    """The one step that needs a network is left out with install: false, and installs what lies
    beside the action, with an extra that exists.
    """
    step, audit = action["runs"]["steps"]
    assert not wanted(step, inputs(action, {"install": "false", "targets": "x"}))
    values = inputs(action, {"targets": "x"}) | {"github.action_path": str(ROOT)}
    assert wanted(step, values) and wanted(audit, values)
    environment = {key: filled(value, values) for key, value in step["env"].items()}
    words = shlex.split(step["run"])
    assert words[:4] == ["python", "-m", "pip", "install"]
    assert words[-1] == "$SOURCE[$EXTRAS]"
    assert (Path(environment["SOURCE"]) / "pyproject.toml").is_file()
    assert f"\n{environment['EXTRAS']} = [" in (ROOT / "pyproject.toml").read_text()
    assert not {"-c", "--constraint", "-U", "--upgrade"} & set(words)  # what a project has is kept


@pytest.mark.parametrize("name", ["action.yml", ".pre-commit-hooks.yaml", "docs/guides/ci.md"])
def test_releases_are_pinned_by_their_tag(name: str) -> None:
    """What the files show to be copied is the tag of this version."""
    shown = re.findall(r"(?:@|rev: )(v[\w.]+)", (ROOT / name).read_text())
    assert shown == [f"v{flowref.__version__}"]


@pytest.fixture(scope="module")
def hook() -> dict[str, Any]:
    """The hook, as its file has it."""
    (one,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert isinstance(one, dict)
    return one


@pytest.mark.parametrize(
    ("path", "runs"),
    [
        ("flows.py", True),
        ("mine/flows/__init__.py", True),
        ("mine/RealNVPFlow.py", True),
        ("src/mine/bijectors/rotation.py", True),
        ("layers/coupling_layers.py", True),
        ("batch_norm.py", True),
        ("models/vae.py", True),
        ("nets.py", True),
        ("notebooks/flow.ipynb", True),
        ("setup.py", False),
        ("docs/conf.py", False),
        ("mine/cli.py", False),
        ("docs/flows.md", False),
        ("flowref-baseline.toml", False),
    ],
)
def test_the_hook_runs_where_flows_change(hook: dict[str, Any], path: str, runs: bool) -> None:
    """A commit that touches no file of a flow is not held up; pre-commit searches with the pattern."""
    assert bool(re.search(hook["files"], path)) is runs


def test_the_hook_is_quick(hook: dict[str, Any]) -> None:
    """Its profile and its budget are those of somebody who waits."""
    words = shlex.split(hook["entry"])
    assert words[:4] == ["python", "-m", "flowref", "audit"]
    assert words[words.index("--profile") + 1] == "quick" and "--budget" in words


@pytest.mark.parametrize(("name", "code"), [("Right", 0), ("Wrong", 1)])
def test_the_hook_judges_its_targets(
    hook: dict[str, Any], project: Path, name: str, code: int
) -> None:
    """The hook's entry with a user's args passes a correct flow and fails a wrong one."""
    assert (hook["language"], hook["pass_filenames"]) == ("system", False)
    args = [f"mine/flows.py:{name}", "--laws", LAWS, "-j", "1"]
    done = subprocess.run(
        [*shlex.split(hook["entry"]), *args],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": PATH},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert ("VIOLATED" in done.stdout) is bool(code)
