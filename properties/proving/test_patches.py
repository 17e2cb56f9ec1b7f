"""Patches: the line of a repair edited in its source, and proved; what is not proved is not shown."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from flowref import registry
from flowref.cli import main
from flowref.proving import patch, repairs_of
from flowref.reporting.report import Report

FLOW = """
import torch
from torch import nn

average = torch.mean


class Flow(nn.Module):
    event_shape = ({size},)

    def __init__(self):
        super().__init__()
        self.s = nn.Parameter(torch.linspace(-0.3, 0.4, {size}))
        self.t = nn.Parameter(torch.linspace(0.5, -0.2, {size}))

    def forward(self, x):
        u = {map}
        return u * self.s.exp() + self.t, {log_det}

    def inverse(self, z):
        u = {inverse}
        return {back}, {inverse_log_det}

    def told(self, slope):
        return -(slope + self.s).sum(-1)
"""
RIGHT = {
    "size": "3",
    "map": "torch.sinh(x)",
    "log_det": "(torch.cosh(x).log() + self.s).sum(-1)",
    "inverse": "(z - self.t) / self.s.exp()",
    "back": "torch.asinh(u)",
    "inverse_log_det": "-(0.5 * torch.log1p(u**2) + self.s).sum(-1)",
}
SQUARE = {"map": "0.5 * x.exp() ** 2", "inverse_log_det": "None"}
AFFINE = {"map": "x", "back": "u"}
LOG_DET, INVERSE = "map/log-det", "map/inverse"
# What is wrong -> the law, and what the patch writes in the place of the first of it; nothing where there is none.
PLANTED: dict[str, tuple[dict[str, str], str, str]] = {
    "mean for sum": (
        {"log_det": "(torch.cosh(x).log() + self.s).mean(-1)"},
        LOG_DET,
        "(torch.cosh(x).log() + self.s).sum(-1)",
    ),
    "sign of the scale": (
        {"log_det": "(torch.cosh(x).log() - self.s).sum(-1)"},
        LOG_DET,
        "(torch.cosh(x).log() + self.s).sum(-1)",
    ),
    "sign of all": (
        {"inverse_log_det": "(0.5 * torch.log1p(u**2) + self.s).sum(-1)"},
        "map/log-det[inverse]",
        "-(0.5 * torch.log1p(u**2) + self.s).sum(-1)",
    ),
    "a factor too many": (
        {"log_det": "2 * (torch.cosh(x).log() + self.s).sum(-1)"},
        LOG_DET,
        "(torch.cosh(x).log() + self.s).sum(-1)",
    ),
    "a factor that is missing": (
        {"log_det": "x.sum(-1) + self.s.sum()", **SQUARE},
        LOG_DET,
        "2 * x.sum(-1) + self.s.sum()",
    ),
    "a factor that may be a size": (
        {"log_det": "x.sum(-1) + self.s.sum()", **SQUARE, "size": "2"},
        LOG_DET,
        "",
    ),
    "a term that is missing": (
        {"log_det": "torch.cosh(x).log().sum(-1)"},
        LOG_DET,
        "torch.cosh(x).log().sum(-1) + self.s.sum()",
    ),
    "the first left out": (
        {"log_det": "(torch.cosh(x).log() + self.s)[:, 1:].sum(-1)"},
        LOG_DET,
        "(torch.cosh(x).log() + self.s).sum(-1)",
    ),
    "* for /": ({"inverse": "(z - self.t) * self.s.exp()", **AFFINE}, INVERSE, RIGHT["inverse"]),
    "+ for -": ({"inverse": "(z + self.t) / self.s.exp()", **AFFINE}, INVERSE, RIGHT["inverse"]),
    "an operator too many": (
        {"inverse": "(z - self.t) / (self.s.tanh()).exp()", **AFFINE},
        INVERSE,
        "(z - self.t) / self.s.exp()",
    ),
    "not to be located": (
        {"log_det": "average(torch.cosh(x).log() + self.s, -1)"},
        LOG_DET,
        "",
    ),
    "right for the other call": (
        {
            "log_det": "self.told(torch.cosh(x).log())",
            "inverse_log_det": "self.told(0.5 * torch.log1p(u**2))",
        },
        LOG_DET,
        "",
    ),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def planted(path: Path, wrong: dict[str, str]) -> str:
    """Write a flow with a mistake; its text."""
    text = FLOW.format(**RIGHT | wrong)
    path.write_text(text)
    return text


def patched(spec: str, name: str, *repairs: str) -> str:
    """The diff of a target for a law, of some repairs or those that are found."""
    target, law = registry.parse_target(spec), registry.find_law(name)
    found = repairs or repairs_of(target, law)
    assert found
    return patch(target, law, found)


def lines(diff: str) -> list[str]:
    """What a diff takes away and adds."""
    return [one for one in diff.splitlines()[2:] if one.startswith(("+", "-"))]


@pytest.mark.parametrize("name", PLANTED)
def test_a_patch_is_the_smallest_edit_that_is_proved(name: str, folder: Path) -> None:
    """It is a diff of the line with the mistake, and the file itself stays as it is."""
    wrong, law, right = PLANTED[name]
    text, written = planted(folder / "flow.py", wrong), next(iter(wrong.values()))
    diff = patched("flow.py:Flow", law)
    line = next(one for one in text.splitlines() if written in one)
    expected = [f"-{line}", f"+{line.replace(written, right)}"] if right else []
    assert lines(diff) == expected
    assert not right or diff.startswith("--- a/flow.py\n+++ b/flow.py\n@@ ")
    assert (folder / "flow.py").read_text() == text


@pytest.mark.parametrize(
    "repair",
    [
        "17: without mul",
        "18: without mul",
        "18: without exp",
        "17: sinh times -1",
        "999: without mul",
    ],
)
def test_no_patch_changes_the_map(repair: str, folder: Path) -> None:
    """Not where the log-det is that of the other map; and a line that is gone has none."""
    planted(folder / "flow.py", {"log_det": "torch.cosh(x).log().sum(-1)", "back": "u"})
    repair = f"flow.py:{repair} (proved for all inputs and all weights)"
    assert patched("flow.py:Flow", LOG_DET, repair) == ""


def test_what_is_right_by_now_has_no_patch(folder: Path) -> None:
    """A repair of an earlier text is none of this one."""
    planted(folder / "flow.py", {})
    repair = "flow.py:18: without neg (proved for all inputs and all weights)"
    assert patched("flow.py:Flow", LOG_DET, repair) == ""


@pytest.mark.parametrize("spec", ["parcel.flows:Flow", "parcel:Flow", "parcel/flows.py:Flow"])
def test_a_module_of_a_package_is_patched(
    spec: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside what it imports relatively, with what it prints left out, and no module of it stays."""
    parcel = folder / "parcel"
    parcel.mkdir()
    (parcel / "__init__.py").write_text("from .flows import Flow\n")
    (parcel / "log_dets.py").write_text("def total(x):\n    return x.sum(-1)\n")
    log_det = "total(torch.cosh(x).log() + self.s) / 2"
    text = planted(parcel / "flows.py", {"log_det": log_det})
    (parcel / "flows.py").write_text(f"from .log_dets import total\nprint('loaded'){text}")
    for name in [one for one in sys.modules if one.partition(".")[0] == "parcel"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(folder))
    diff = patched(spec, LOG_DET)
    (taken, added), places = lines(diff), list(sys.path)
    assert diff.startswith("--- a/parcel/flows.py\n") and taken.endswith(log_det)
    assert added == taken.replace("-", "+", 1).removesuffix(" / 2")
    files = [str(getattr(one, "__file__", "")) for one in sys.modules.values()]
    assert all(Path(file).exists() for file in files if "parcel" in file) and places == sys.path


def test_an_issue_has_the_patch(folder: Path) -> None:
    """As a diff, in a section of its own; the JSON of the report is without."""
    planted(folder / "flow.py", PLANTED["mean for sum"][0])
    words = ["audit", "flow.py:Flow", "--in-process", "--profile", "quick", "--laws", LOG_DET]
    CliRunner().invoke(main, [*words, "--json", "r.json"])
    (verdict,) = Report.load(folder / "r.json").violations
    result = CliRunner().invoke(main, ["issue", verdict.id, "--report", "r.json", "--no-script"])
    section = result.output.partition("#### Patch\n")[2]
    assert "```diff\n--- a/flow.py\n" in section and "self.s).sum(-1)\n" in section
    assert "+++" not in (folder / "r.json").read_text()
