"""`flowref check`: a line for each decisive check, and a sentence for each flow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flowref import registry
from flowref.cli import main
from flowref.model import Evidence, Status, Verdict
from flowref.model.verdict import Size
from flowref.reporting import checks

FLOWS = '''
import torch
from torch import nn

print("a debugging print")


class Scale(nn.Module):
    """x -> exp(s) x."""

    event_shape = (3,)

    def __init__(self):
        super().__init__()
        self.s = nn.Parameter(torch.tensor([0.1, 0.2, -0.4]))

    def forward(self, x):
        return x * self.s.exp(), self.s.sum().expand(len(x))

    def inverse(self, z):
        return z * (-self.s).exp(), -self.s.sum().expand(len(z))


class Mean(Scale):
    """A mean in place of a sum."""

    def forward(self, x):
        return x * self.s.exp(), self.s.mean().expand(len(x))

    def inverse(self, z):
        return z * (-self.s).exp(), -self.s.mean().expand(len(z))


class Wide(Scale):
    def __init__(self, dim):
        super().__init__()


class Open(Scale):
    def __init__(self, net):
        super().__init__()


class Net(nn.Linear):
    def __init__(self):
        super().__init__(3, 4)
'''


def flowref(*arguments: str) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A file of flows that was checked, in a folder of its own."""
    folder = tmp_path_factory.mktemp("checked")
    (folder / "flows.py").write_text(FLOWS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "200")
        return flowref("check", "flows.py")


def test_every_flow_of_a_file_is_checked(checked: Result) -> None:
    """What is there and what is left out, a line for each check, a sentence for each flow."""
    assert checked.exit_code == 1, checked.output
    lines = checked.stdout.splitlines()
    assert lines[0] == "flows.py defines Scale, Mean, Wide?dim=3, Net"
    assert any(line.startswith("  left out: Open: needs net: name a factory") for line in lines)
    (left,) = [line for line in lines if line.startswith("left out: flows.py:Net")]
    assert left.endswith("a bijection keeps the number of entries")
    assert any(line.split() == "passed inverse(forward(x)) is x proved".split() for line in lines)
    failed = [line for line in lines if line.startswith("  FAILED   log-det of forward")]
    assert failed[0].endswith("0.0667 nats per point")
    assert lines[-3:] == [
        "Scale: all 13 checks passed.",
        "Mean: 11 checks passed, 2 failed; its log-det is wrong by 0.0667 nats per point in both directions.",
        "Wide?dim=3: all 13 checks passed.",
    ]
    assert "debugging" not in checked.output


def test_a_missing_import_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for every class of the file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flows.py").write_text(f"import not_installed\n{FLOWS}")
    done = flowref("check", "flows.py")
    assert (done.stdout + done.stderr).count("No module named 'not_installed'") == 1


@pytest.mark.parametrize(
    ("spec", "code", "said"),
    [
        ("flows.py:Scale", 0, "Scale: all 13 checks passed."),
        ("flows.py:Wide?dim=3", 0, "Wide?dim=3: all 13 checks passed."),
        ("flows.py:Scael", 2, "flows.py has no 'Scael' (did you mean Scale?)"),
        ("flow.py", 2, "no such file: flow.py (did you mean flows.py?)"),
        ("nothing.py", 2, "nothing.py defines no flow"),
    ],
)
def test_a_check_exits_by_what_came_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str, code: int, said: str
) -> None:
    """0 where all passed, 2 where there is nothing to check; refusals are said once."""
    (tmp_path / "flows.py").write_text(FLOWS)
    (tmp_path / "nothing.py").write_text("x = 3\n")
    monkeypatch.chdir(tmp_path)
    done = flowref("check", spec)
    assert done.exit_code == code, done.output
    assert done.output.count(said) == 1


@pytest.mark.parametrize("defect", ["", "first-row-for-all", "log-det-without-it"])
def test_a_context_that_may_be_left_out_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defect: str
) -> None:
    """And it is said that all else is without it."""
    flow = "from flowref_zoo.specimens.moods import Optional\n\n\nclass Mine(Optional):\n    def __init__(self):\n"
    flow += f"        super().__init__({defect!r})\n"
    (tmp_path / "mine.py").write_text(flow)
    monkeypatch.chdir(tmp_path)
    done = flowref("check", "mine.py:Mine")
    assert done.exit_code == bool(defect), done.output
    assert "judged without context" in done.output


def test_every_check_is_a_law_that_counts() -> None:
    """None is advice, or measured in the thorough profile alone."""
    found = [registry.find_law(law) for law in checks.LAWS]
    assert all(law.force == "claim" and not law.thorough for law in found)
    assert len(set(checks.LAWS)) == len(checks.LAWS)


PASSED = [Verdict("t", law, Status.HOLDS) for law in checks.LAWS[:3]]
WRONG = Verdict("t", "map/log-det", Status.VIOLATED, evidence=Evidence(0.5, 1e-9))
ROUND = Verdict("t", "map/inverse", Status.VIOLATED, evidence=Evidence(0.5, 1e-9))
SIZED = replace(WRONG, size=Size(0.36, 0.7, 48, 3))


def test_what_is_known_to_fail_fails_no_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Failures of the baseline file are called known and exit 0; another format takes standard output."""
    (tmp_path / "flows.py").write_text(FLOWS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    done = flowref("check", "flows.py:Mean", "--output-format", "concise")
    assert done.exit_code == 1 and "flows.py:27: map/log-det:" in done.stdout, done.output
    assert done.stdout.count("\n") == 2
    assert flowref("baseline", "update").exit_code == 0
    done = flowref("check", "flows.py:Mean")
    assert done.exit_code == 0, done.output
    assert "  known    log-det of forward is log|det J|" in done.stdout
    assert done.stdout.endswith("Mean: all 11 checks passed, 2 known to fail.\n")


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        (PASSED, "t: all 3 checks passed."),
        (
            [*PASSED[:2], SIZED],
            "t: 2 checks passed, 1 failed; its log-det is wrong by 0.36 nats per point.",
        ),
        (
            [*PASSED[1:], ROUND],
            "t: 2 checks passed, 1 failed; inverse does not undo forward (off by 0.5).",
        ),
        (
            [*PASSED[:2], replace(SIZED, minor=True)],
            "t: all 3 checks passed, 1 with an error below single precision.",
        ),
        (
            [
                *PASSED,
                Verdict("t", checks.LAWS[4], Status.NOT_APPLICABLE, "no inverse", blocked=True),
            ],
            "t: all 3 checks passed, 1 skipped.",
        ),
        ([Verdict("t", checks.LAWS[0], Status.NOT_APPLICABLE)], "t: nothing could be checked."),
        (
            [*PASSED[:2], Verdict("t", checks.LAWS[2], Status.TIMEOUT, "it took 20 s")],
            "t: 2 checks passed, 1 timed out; log-det of forward is log|det J|: it took 20 s.",
        ),
    ],
)
def test_one_sentence_says_what_came_of_a_flow(verdicts: list[Verdict], said: str) -> None:
    """How many passed, what is wrong, and by how much."""
    assert checks.sentence("t", verdicts) == said
