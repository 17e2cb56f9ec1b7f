"""Known failures on the command line: adopted in two commands, and loud when they change."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flowref.cli import main
from flowref.loading.load_subject import forget
from flowref.loading.user_code import imported_from
from flowref.model import Condition, Counterexample, Status, Verdict
from flowref.reporting.contents import Environment
from flowref.reporting.report import Report

FLOWS = """
import torch
from torch import nn


class Scale(nn.Module):
    event_shape = (2,)

    def __init__(self):
        super().__init__()
        self.s = nn.Parameter(torch.tensor([0.25, 0.5]))

    def forward(self, x):
        return x * self.s.exp(), self.s.sum().expand(len(x))

    def inverse(self, z):
        return z * (-self.s).exp(), BUG


def healthy():
    return Scale()
"""
BUG, WORSE, MENDED = (
    f"{factor} * self.s.sum().expand(len(z))" for factor in ("-1.001", "-1.5", "-1")
)
LAW = "map/log-det[antisymmetry]"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a flow that has a bug."""
    monkeypatch.chdir(tmp_path)
    put(tmp_path, BUG)
    return tmp_path


def put(folder: Path, ladj: str) -> None:
    """Write the flow with this log-det of its inverse."""
    (folder / "flows.py").write_text(FLOWS.replace("BUG", ladj))
    imported_from.cache_clear()  # as another process sees it
    forget()


def flowref(*arguments: str) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(main, list(arguments))


def audit(*arguments: str) -> Result:
    """Audit one law in this process."""
    common = ("--in-process", "--profile", "quick", "--laws", LAW)
    return flowref("audit", "flows.py:Scale", *common, *arguments)


def adopt() -> None:
    """The two commands."""
    assert audit().exit_code == 1
    assert flowref("baseline", "update").exit_code == 0


def test_a_library_with_open_findings_adopts_flowref_in_two_commands(folder: Path) -> None:
    """After an audit and an update the same audit passes, and its line says what is known."""
    adopt()
    done = audit("--strict", "--json", "out.json")
    assert done.exit_code == 0, done.output
    assert "1 known" in done.stdout
    assert "VIOLATED" not in done.stdout
    assert Report.load(folder / "out.json").violations
    assert audit("--no-baseline").exit_code == 1


def test_a_known_failure_is_known_in_workers(folder: Path) -> None:
    """Pinned cases are measured again in workers as they are in this process."""
    adopt()
    done = flowref("audit", "flows.py:Scale", "-j", "1", "--profile", "quick", "--laws", LAW)
    assert done.exit_code == 0, done.output
    assert "1 known" in done.stdout


def test_a_case_that_no_search_meets_is_a_violation_all_the_same(folder: Path) -> None:
    """Where the search finds nothing, the case on record still shows what is known."""
    put(folder, f"{MENDED} - 0.25 * ((z * (-self.s).exp())[:, 0].sub(0.8125).abs() < 1e-9)")
    case = Counterexample([[0.8125, 0.5]], None, 0, Condition())
    recorded = Verdict("flows.py:Scale", LAW, Status.VIOLATED, counterexample=case)
    report = Report(Environment("0", "3", "here"), verdicts=(recorded,))
    assert audit().exit_code == 0
    report.save(folder / "rare.json")
    assert flowref("baseline", "update", "--report", "rare.json").exit_code == 0
    done = audit("--json", "out.json")
    assert done.exit_code == 0
    (violation,) = Report.load(folder / "out.json").violations
    assert "seen in the case on record" in violation.reason
    assert audit("--no-baseline", "--json", "out.json").exit_code == 0
    assert not Report.load(folder / "out.json").violations


def test_a_mended_failure_is_stale(folder: Path) -> None:
    """Once it is mended an audit passes, exits 4 under --strict, and prune takes the entry off."""
    adopt()
    put(folder, MENDED)
    assert audit().exit_code == 0
    assert audit("--strict").exit_code == 4
    assert flowref("baseline", "check").exit_code == 0
    assert flowref("baseline", "check", "--strict").exit_code == 4
    assert "1 removed, 0 left" in flowref("baseline", "prune").stdout
    assert audit("--strict").exit_code == 0
    put(folder, BUG)
    assert audit().exit_code == 1


def test_a_worse_failure_is_new(folder: Path) -> None:
    """A known failure that grows by more than ten is new, in audits and in checks."""
    adopt()
    put(folder, WORSE)
    done = audit()
    assert done.exit_code == 1
    assert "changed" in done.stdout
    assert flowref("baseline", "check").exit_code == 1
    assert flowref("baseline", "update").exit_code == 0
    assert audit().exit_code == 0


def test_an_expired_entry_is_new_again(folder: Path) -> None:
    """After its date a failure counts, with a sentence; another date accepts it again."""
    assert audit().exit_code == 1
    flowref("baseline", "update", "--expires", "2020-01-01")
    done = audit()
    assert done.exit_code == 1
    told = " ".join(done.stdout.split())
    assert "accepted until 2020-01-01, which has passed: it is new again" in told
    assert "expired on 2020-01-01" in flowref("baseline", "update").stderr
    flowref("baseline", "update", "--expires", "2999-01-01", "--issue", "https://x")
    assert audit().exit_code == 0


def test_a_project_declares_what_it_knows(folder: Path) -> None:
    """An entry of pyproject.toml is enough; prune names it and leaves the file alone."""
    project = folder / "pyproject.toml"
    project.write_text(
        f'[[tool.flowref.known]]\ntarget = "flows.py:S*"\nlaw = "{LAW}"\nreason = "a bug"\n'
    )
    done = audit("--strict")
    assert done.exit_code == 0, done.output
    assert "a bug" in done.stdout
    put(folder, MENDED)
    assert audit("--strict").exit_code == 4
    assert "an audit shows" in flowref("baseline", "check").stdout


def test_a_misspelt_entry_stops_the_audit(folder: Path) -> None:
    """An entry that matches nothing ends an audit before it begins: exit 2 and the nearest name."""
    project = folder / "pyproject.toml"
    project.write_text(
        f'\n[[tool.flowref.known]]\ntarget = "flows.py:Scal"\nlaw = "{LAW}"\nreason = "a bug"\n'
    )
    done = audit()
    assert done.exit_code == 2
    assert "pyproject.toml:2: flows.py:Scal matches nothing" in done.stderr
    assert "did you mean Scale?" in done.stderr
    assert flowref("baseline", "check").exit_code == 2


@pytest.mark.usefixtures("folder")
def test_only_what_is_named_is_recorded() -> None:
    """With short names only these are accepted; a name that nothing bears is refused."""
    assert audit().exit_code == 1
    done = flowref("baseline", "update", "ZZZZ")
    assert done.exit_code == 2
    assert "no failure ZZZZ in this report" in done.stderr
    assert not Path("flowref-baseline.toml").exists()


@pytest.mark.usefixtures("folder")
def test_a_baseline_that_is_not_there_is_refused() -> None:
    """A file that is named and not there is one sentence, and exit 2."""
    done = audit("--baseline", "none.toml")
    assert done.exit_code == 2
    assert "none.toml cannot be read: there is no such file" in done.stderr
