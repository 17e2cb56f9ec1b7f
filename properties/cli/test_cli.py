"""The command line: exit codes, files, one sentence for every mistake, and nothing heavy for
--help.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from effort import PATIENCE
from flowref.checking.settings import PROFILES
from flowref.cli import main
from flowref.reporting.report import Report

FLOWS = '''
import os
import torch
from torch import nn


class Scale(nn.Module):
    """x -> exp(s) x + t."""

    event_shape = (3,)

    def __init__(self):
        super().__init__()
        self.s = nn.Parameter(torch.tensor([0.1, 0.2, -0.4]))
        self.t = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x):
        return x * self.s.exp() + self.t, self.s.sum().expand(len(x))

    def inverse(self, z):
        return (z - self.t) * (-self.s).exp(), -self.s.sum().expand(len(z))


class WrongSign(Scale):
    """The inverse's log-det has the sign of the forward map's."""

    def inverse(self, z):
        return (z - self.t) * (-self.s).exp(), self.s.sum().expand(len(z))


class Dies(Scale):
    """Ends its process at the first call."""

    def forward(self, x):
        os._exit(0)


def unwilling():
    raise ValueError("no weights here")


number = 3
'''
LAW = "map/log-det[antisymmetry]"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a file of flows."""
    (tmp_path / "flows.py").write_text(FLOWS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def flowref(*arguments: str) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(main, list(arguments))


def quick(*arguments: str) -> Result:
    """Audit one law in this process."""
    return flowref("audit", "--in-process", "--profile", "quick", "--laws", LAW, *arguments)


COMMANDS = (
    "audit",
    "check",
    "init",
    "doctor",
    "report",
    "laws",
    "explain",
    "replay",
    "script",
    "issue",
    "selftest",
    "diff",
    "fit",
    "sample",
)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_imports_nothing_heavy(command: str) -> None:
    """The help of every command and import flowref load no framework, no numpy, no rich and no
    hypothesis.
    """
    program = (
        "import sys, flowref\n"
        "from flowref.cli import main\n"
        f"try:\n    main([*{command.split()!r}, '--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'numpy', 'rich', 'hypothesis', 'scipy', 'pebble'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (command or "audit") in done.stdout


def test_a_clean_audit(folder: Path) -> None:
    """A correct flow holds: one line, exit 0, and the report is kept."""
    done = quick("flows.py:Scale")
    assert done.exit_code == 0, done.output
    assert "flows.py:Scale   bijection with inverse   1 check: 1 passed" in done.output
    assert Report.load(folder / ".flowref" / "report.json").complete


def test_a_violation_and_its_replay(folder: Path) -> None:
    """A violation exits 1, is written in every format, and replays by its name, all together and
    from the file.
    """
    done = quick("flows.py:WrongSign", "--json", "out.json", "--markdown", "out.md")
    assert done.exit_code == 1, done.output
    (verdict,) = Report.load(folder / "out.json").violations
    assert f"flowref script {verdict.id} > repro.py" in done.output
    assert verdict.id in (folder / "out.md").read_text()
    for arguments in (
        (verdict.id,),
        ("--all",),
        ("out.json",),
        (verdict.id.lower(), "--report", "out.json"),
    ):
        again = flowref("replay", *arguments)
        assert again.exit_code == 1, again.output
        assert again.output.startswith("STILL FAILS")


def test_a_mended_flow_is_fixed(folder: Path) -> None:
    """Once the defect is mended, another process replays the violation as FIXED and exits 0: all of the
    report, and by name where the last report has the law as held.
    """
    assert quick("flows.py:WrongSign").exit_code == 1
    (verdict,) = Report.load(folder / ".flowref" / "report.json").violations
    (folder / "flows.py").write_text(FLOWS.replace(".exp(), self.s.sum()", ".exp(), -self.s.sum()"))
    audit = ("audit", "flows.py:WrongSign", "--in-process", "--profile", "quick", "--laws", LAW)
    for arguments in (("replay", "--all"), audit, ("replay", verdict.id)):
        command = [sys.executable, "-m", "flowref", *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.stdout.startswith("FIXED" if "replay" in arguments else "flows.py:WrongSign")
        assert done.returncode == 0, done.stdout + done.stderr


def test_mistakes_are_sentences_and_others_are_audited(folder: Path) -> None:
    """Unknown names and targets that cannot be loaded exit 2 with a sentence each; the good target
    is still audited.
    """
    bad = [
        "flows.py:nope",
        "flows.py:unwilling",
        "flows.py:number",
        "nosuch.py:f",
        "zukko",
        "a.b.c:make",
        "x:",
    ]
    done = quick("flows.py:Scale", *bad)
    assert done.exit_code == 2
    assert "flows.py:Scale   bijection with inverse   1 check: 1 passed" in done.output
    assert "Traceback" not in done.output
    for name in (
        "'nope'",
        "no weights here",
        "is a int",
        "no such file: nosuch.py",
        "'zukko'",
        "no module 'a'",
        "'x:'",
    ):
        assert name in done.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("audit", "flows.py:Scale", "--laws", "bijection/logdet"), "did you mean"),
        (("audit", "flows.py:Scale", "--budget", "soon"), "no duration"),
        (("audit", "flows.py:Scale", "-j", "0"), "no number of workers"),
        (("audit", "flows.py:Scale", "--memory", str(2**40)), "that this machine has"),
        (("audit", "flows.py:Scale", "--json", "no/such/out.json"), "no folder"),
        (("explain", "bijection/logdet"), "did you mean"),
        (("replay",), "--all"),
        (("replay", "K7Q2"), "no .flowref"),
        (("replay", "missing.json"), "cannot be read"),
        (("replay", "flows.py"), "not JSON"),
        (("script", "K7Q2"), "no .flowref"),
        (("issue", "K7Q2"), "no .flowref"),
        (("laws", "--for", "flows.py:nope"), "'nope'"),
    ],
)
def test_usage_mistakes_exit_2(folder: Path, arguments: tuple[str, ...], said: str) -> None:
    """A mistake on the command line is one sentence and exit 2."""
    done = flowref(*arguments)
    assert done.exit_code == 2, done.output
    assert said in done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize("profile", PROFILES)
def test_profiles_are_those_of_the_check(profile: str) -> None:
    """Every profile of the check is offered, and no other, though --help imports no check."""
    assert flowref("laws", "--profile", profile).exit_code == 0
    refused = flowref("laws", "--profile", "none").output
    assert re.findall(r"'(\w+)'", refused.partition("not one of")[2]) == list(PROFILES)


def test_workers_survive_a_target_that_ends_its_process(folder: Path) -> None:
    """A target that ends its process while it is loaded costs itself, exit 3, and the other target
    is judged.
    """
    done = flowref(
        "audit", "flows.py:Dies", "flows.py:Scale", "--laws", LAW, "-j", "1", "--profile", "quick"
    )
    assert done.exit_code == 3, done.output
    assert "CRASHED" in done.output
    assert "flows.py:Scale   bijection with inverse   1 check: 1 passed" in done.output


def test_nothing_meaningful_exits_5(folder: Path) -> None:
    """Where no law applies, the audit does not pretend to have checked something."""
    done = flowref(
        "audit", "flows.py:Scale", "--in-process", "--laws", "map/promised-jacobian[volume]"
    )
    assert done.exit_code == 5, done.output
    assert "Nothing meaningful" in done.output


def test_json_on_standard_output_is_only_json(folder: Path) -> None:
    """With --json - standard output is a report, and lines about targets go to standard error."""
    done = quick("flows.py:Scale", "--json", "-")
    assert Report.from_json(done.stdout).exit_code == 0
    assert "1 passed" in done.stderr


def test_a_brief_report_is_written_brief(folder: Path) -> None:
    """--brief counts what holds in both files; the report of the last audit is kept in full."""
    targets = ("flows.py:WrongSign", "flows.py:Scale")
    done = quick(*targets, "--brief", "--json", "out.json", "--markdown", "out.md")
    assert done.exit_code == 1, done.output
    brief, full = Report.load(folder / "out.json"), Report.load(folder / ".flowref/report.json")
    assert brief.omitted is not None and full.omitted is None
    assert brief.violations == full.violations and brief.counts == full.counts
    assert "This report is brief" in (folder / "out.md").read_text()
    assert flowref("diff", "out.json", ".flowref/report.json").exit_code == 0
    assert flowref("replay", "out.json").output.startswith("STILL FAILS")


def test_explain_takes_the_letters_of_a_violation(folder: Path) -> None:
    """And explains its law."""
    quick("flows.py:WrongSign", "--json", "out.json")
    (verdict,) = Report.load(folder / "out.json").violations
    explained = flowref("explain", verdict.id.lower()).output
    assert explained == flowref("explain", verdict.law).output


def test_the_catalogue_is_readable(folder: Path) -> None:
    """The catalogue is listed, laws --for says what applies and why not, explain tells everything
    about one.
    """
    assert LAW in flowref("laws").output
    chosen = flowref("laws", "--for", "flows.py:Scale").output
    assert "not applicable: it does not promise" in chosen
    assert "laws apply" in chosen
    told = flowref("explain", LAW).output
    for part in ("kind:", "needs:", "tolerance:"):
        assert part in told
