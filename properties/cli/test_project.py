"""`flowref audit` without targets: what pyproject.toml of the folder declares, as pytest runs it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flowref import registry
from flowref.auditing import audit_run, journal
from flowref.auditing.options import Options
from flowref.cli import main
from flowref.reporting.report import Report

FLOWS = """
import torch


class Right:
    event_shape = (3,)

    def forward(self, x):
        return 2 * x, x.shape[-1] * torch.full((len(x),), 2.0, dtype=x.dtype).log()

    def inverse(self, z):
        return z / 2, -z.shape[-1] * torch.full((len(z),), 2.0, dtype=z.dtype).log()


class Shapeless(Right):
    event_shape = None
"""
LAW, OTHER = "map/log-det", "map/inverse"
PROJECT = f"""
[[tool.flowref.target]]
spec = "flows.py:Right"
laws = ["{LAW}"]
profile = "pr"

[[tool.flowref.target]]
spec = "flows.py:Shapeless"
event = [2]
laws = "{LAW},{OTHER}"
profile = "quick"
"""
PAIRS = {
    ("flows.py:Right", LAW), ("flows.py:Shapeless?event=2", LAW), ("flows.py:Shapeless?event=2", OTHER),
}  # fmt: skip
# A line of the project file, what takes its place -> what is said of it.
MISTAKES = {
    "pyproject.toml:2: the spec of a target is missing": ('spec = "flows.py:Right"', ""),
    "pyproject.toml:2: 'zukko' names no library (did you mean zuko": ("flows.py:Right", "zukko"),
    "pyproject.toml:2: no law matches 'bijektion/*'": (f'["{LAW}"]', '"bijektion/*"'),
    "pyproject.toml:7: event is 0; expected a number": ("[2]", "0"),
    "pyproject.toml:2: the profile is 'prr' (did you mean pr": ('"pr"', '"prr"'),
    "pyproject.toml:7: the profile is thorough, and at pyproject.toml:2 it is pr; an audit has one: give "
    "--profile": ('profile = "quick"', 'profile = "thorough"'),
    "pyproject.toml:2: tool.flowref has no 'targets' (did you mean target": (
        "[[tool.flowref.target]]\nspec = \"flows.py:Right\"", "[[tool.flowref.targets]]\nspec = 'a.py:b'"),
    "pyproject.toml is not TOML: ": ('spec = "flows.py:Right"', 'spec = "flows.py:Right'),
}  # fmt: skip


COMMON = """
[tool.flowref]
profile = "pr"
laws = ["map/inverse", "map/inverse[latents]"]
ignore = ["*[latents]"]
timeout = "5m"
"""
# A line of these settings, what takes its place -> what is said of it.
COMMON_MISTAKES = {
    "pyproject.toml:3: the profile is 'prr' (did you mean pr": ('"pr"', '"prr"'),
    "pyproject.toml:4: no law matches 'mapp/*'": ('"map/inverse"', '"mapp/*"'),
    "pyproject.toml:5: ignore is 3; expected ids or globs": ('["*[latents]"]', "3"),
    "pyproject.toml:5: no law matches 'forward*'": ("*[latents]", "forward*"),
    "pyproject.toml:6: timeout is 'soon'; expected seconds": ("5m", "soon"),
    "pyproject.toml:6: timeout is True; expected seconds": ('"5m"', "true"),
    "pyproject.toml:5: tool.flowref has no 'ignored' (did you mean ignore": ("ignore", "ignored"),
}  # fmt: skip


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: a project that declares two targets, each with its own laws."""
    (tmp_path / "flows.py").write_text(FLOWS)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def audit(*words: str) -> Result:
    """`flowref audit` in this process."""
    return CliRunner().invoke(main, ["audit", "--in-process", "--json", "r.json", *words])


def pairs(path: Path) -> set[tuple[str, str]]:
    """The pairs of a report."""
    return {(verdict.target, verdict.law) for verdict in Report.load(path).verdicts}


def test_the_project_says_what_is_audited(project: Path) -> None:
    """Each target is held to its own laws, with its own shape and the profile of all, and a line
    says where they come from.
    """
    done = audit()
    assert done.exit_code == 0, done.output
    assert pairs(project / "r.json") == PAIRS
    assert Report.load(project / "r.json").environment.profile == "quick"
    assert (
        "flowref: 2 targets declared in pyproject.toml; name SPECS to audit others" in done.stderr
    )


def test_the_command_line_stands_before_the_project(project: Path) -> None:
    """Laws and the profile of the command are those of all its targets, and targets that it names
    are the only ones.
    """
    assert audit("--laws", OTHER, "--profile", "thorough").exit_code == 0
    names = {target for target, _ in PAIRS}
    assert pairs(project / "r.json") == {(name, OTHER) for name in names}
    assert Report.load(project / "r.json").environment.profile == "thorough"
    done = audit("flows.py:Right", "--laws", LAW, "--profile", "quick")
    assert pairs(project / "r.json") == {("flows.py:Right", LAW)}
    assert "pyproject.toml" not in done.stderr


def test_an_interrupted_audit_of_other_laws_is_another(project: Path) -> None:
    """The journal of an audit belongs to the laws of each target, too."""
    names: list[str] = []

    def read(self: journal.Journal) -> journal.Earlier:
        names.append(self.digest)
        return journal.Earlier()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal.Journal, "read", read)
        audit()
        text = PROJECT.replace(f'laws = ["{LAW}"]', f'laws = ["{OTHER}"]')
        (project / "pyproject.toml").write_text(text)
        audit()
    assert len(set(names)) == 2


def test_shards_of_a_project_make_the_whole(project: Path) -> None:
    """Two parts hold each pair once, and merged they are the undivided report."""
    assert audit().exit_code == 0
    whole = Report.load(project / "r.json")
    for part in "12":
        assert audit("--shard", f"{part}/2", "--json", f"{part}.json").exit_code == 0
    done = CliRunner().invoke(main, ["merge", "1.json", "2.json", "-o", "all.json"])
    assert done.exit_code == 0, done.output
    merged = Report.load(project / "all.json")
    assert merged.without_time().verdicts == whole.without_time().verdicts
    assert merged.laws == whole.laws


@pytest.mark.parametrize("said", MISTAKES)
def test_a_mistake_of_the_project_is_one_sentence(project: Path, said: str) -> None:
    """What cannot be understood is told with its file and line before anything runs, exit 2."""
    old, new = MISTAKES[said]
    assert old in PROJECT
    (project / "pyproject.toml").write_text(PROJECT.replace(old, new, 1))
    done = audit()
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"flowref: {said}")
    if "TOML" in said:
        assert re.search(r"at line \d+, column \d+", line)


def test_a_known_failure_that_is_misspelt_is_no_less_a_mistake(project: Path) -> None:
    """A list of another name is refused where targets are named as well: nothing would be known."""
    (project / "pyproject.toml").write_text("[[tool.flowref.knwon]]\ntarget = 'a'\n")
    done = audit("flows.py:Right")
    assert done.exit_code == 2
    assert "pyproject.toml:1: tool.flowref has no 'knwon' (did you mean known?)" in done.stderr


def test_a_project_without_targets_is_asked_for_libraries(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing is declared, every library is meant, as ever."""
    (project / "pyproject.toml").write_text("[tool.flowref]\n")
    monkeypatch.setattr(registry, "installed", lambda name: False)
    done = audit()
    assert done.exit_code == 2
    assert "no supported library is installed here" in done.stderr


def written(project: Path) -> tuple[set[str], str]:
    """The laws of the last audit and its profile."""
    report = Report.load(project / "r.json")
    return {verdict.law for verdict in report.verdicts}, report.environment.profile


def test_a_project_says_what_holds_for_all_targets(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Profile, laws, laws to ignore and time-out are defaults of targets that are named, and of those that are
    declared and say nothing of their own; what the command line says stands before them.
    """
    (project / "pyproject.toml").write_text(COMMON)
    limits: list[float] = []
    conduct = audit_run.conduct

    def conducted(targets: Any, laws: Any, options: Options, listener: Any) -> Report:
        limits.append(options.limits.seconds)
        return conduct(targets, laws, options, listener)

    monkeypatch.setattr(audit_run, "conduct", conducted)
    assert audit("flows.py:Right").exit_code == 0
    assert written(project) == ({OTHER}, "quick")
    done = audit(
        *("flows.py:Right", "--laws", LAW, "--ignore", OTHER, "--profile", "standard"),
        *("--timeout", "7s"),
    )
    assert done.exit_code == 0, done.output
    assert written(project) == ({LAW}, "standard")
    assert limits == [300.0, 7.0]
    own = f'[[tool.flowref.target]]\nspec = "flows.py:Right"\nlaws = "{LAW}"\n'
    (project / "pyproject.toml").write_text(COMMON + own)
    assert audit().exit_code == 0
    assert written(project) == ({LAW}, "quick")


@pytest.mark.parametrize("said", COMMON_MISTAKES)
def test_a_mistake_in_what_holds_for_all_is_one_sentence(project: Path, said: str) -> None:
    """With its file and line, before anything runs, exit 2."""
    old, new = COMMON_MISTAKES[said]
    assert old in COMMON
    (project / "pyproject.toml").write_text(COMMON.replace(old, new, 1))
    done = audit("flows.py:Right")
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"flowref: {said}")
