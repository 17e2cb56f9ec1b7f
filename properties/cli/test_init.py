"""`flowref init` and `flowref doctor`: adopting flowref, and what it runs on."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flowref import __version__
from flowref.auditing.project_targets import declared_audit
from flowref.baseline.baseline_parser import load_baseline
from flowref.cli import main

FLOWS = "import torch\nclass Flow(torch.nn.Module):\n    def forward(self, x): ...\n    def inverse(self, z): ...\n"
FILES = ("pyproject.toml", "flowref-baseline.toml", ".github/workflows/flowref.yml")


def flowref(*arguments: str) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a flow in a package, tests beside it and a virtual environment."""
    for name in ("mine/flows.py", "tests/flows.py", "venv/flows.py", "test_flows.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(FLOWS)
    (tmp_path / "venv" / "pyvenv.cfg").write_text("")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "mine"')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_project_is_ready_to_be_audited(project: Path) -> None:
    """What is written is read again: the target, an empty baseline, a workflow; and is said."""
    done = flowref("init")
    assert done.exit_code == 0, done.output
    chosen = declared_audit(project)
    assert chosen is not None and list(map(str, chosen.targets)) == ["mine/flows.py:Flow"]
    assert load_baseline().entries == ()
    workflow = (project / FILES[2]).read_text()
    assert "pip install . 'flowref[torch]'" in workflow and "flowref audit" in workflow
    assert all(name in done.output for name in FILES)
    assert tomllib.loads((project / FILES[0]).read_text())["project"] == {"name": "mine"}


def test_what_needs_arguments_is_said(project: Path) -> None:
    """A class that cannot be built is not written down, and how it is named is said."""
    text = FLOWS.replace("Flow(", "Wide(") + "    def __init__(self, net): ...\n"
    said = "mine/wide.py:Wide needs net: name a factory that takes nothing and returns the object, as in mine/wide.py:make"
    (project / "mine/wide.py").write_text(text)
    assert f"left out: {said}\n" in flowref("init", "--dry-run").output
    (project / "mine/flows.py").unlink()
    done = flowref("init")
    assert done.exit_code == 2 and said in done.output


def test_nothing_is_written_over(project: Path) -> None:
    """A second call leaves all three files as they are, and says so."""
    flowref("init")
    before = [(project / name).read_text() for name in FILES]
    done = flowref("init", "mine/flows.py:Flow")
    assert done.exit_code == 0 and done.output.count("stays as it is") == 3
    assert [(project / name).read_text() for name in FILES] == before


def test_a_dry_run_writes_nothing(project: Path) -> None:
    """It shows what would be written."""
    before = sorted(project.rglob("*"))
    done = flowref("init", "--dry-run")
    assert done.exit_code == 0 and 'spec = "mine/flows.py:Flow"' in done.output
    assert sorted(project.rglob("*")) == before


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        ("", ("flows.py:Flow",), "no such file: flows.py"),
        ("", ("mine/flows.py:Flwo",), "has no 'Flwo' (did you mean Flow?)"),
        ("tool = {}\n", ("mine/flows.py:Flow",), "pyproject.toml cannot take the lines of flowref"),
        ("[tool\n", ("mine/flows.py:Flow",), "pyproject.toml cannot take the lines of flowref"),
    ],
)
def test_what_cannot_be_set_up_is_refused(
    project: Path, text: str, arguments: tuple[str, ...], said: str
) -> None:
    """In one sentence, and nothing is written."""
    (project / "pyproject.toml").write_text(text)
    done = flowref("init", *arguments)
    assert done.exit_code == 2 and said in done.output
    assert not (project / FILES[1]).exists() and (project / FILES[0]).read_text() == text


def test_a_folder_without_flows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says how one is named."""
    monkeypatch.chdir(tmp_path)
    done = flowref("init")
    assert done.exit_code == 2 and "flowref init flows.py:make" in done.output


def test_the_doctor_says_what_there_is() -> None:
    """Versions, libraries, CPUs and memory; exit 0 where nothing is amiss."""
    done = flowref("doctor")
    assert done.exit_code == 0, done.output
    told = dict(line.split(maxsplit=1) for line in done.output.splitlines() if " " in line)
    assert told["flowref"] == __version__
    assert {"python", "torch", "numpy", "libraries", "CPUs", "memory"} <= told.keys()


def test_the_doctor_finds_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any framework nothing can be audited: exit 1, and how one is installed."""
    monkeypatch.setattr("flowref.backends.importable", lambda package: False)
    monkeypatch.setattr(
        "flowref.auditing.environment._version",
        lambda package: "" if package in ("torch", "jax") else "1",
    )
    done = flowref("doctor")
    assert done.exit_code == 1 and "torch is not installed" in done.output
