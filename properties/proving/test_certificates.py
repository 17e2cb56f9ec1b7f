"""Certificates: what is claimed of a target, in a file that is checked without torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from effort import PATIENCE
from flowref import registry
from flowref.cli import main
from flowref.model import ReportError
from flowref.proving import STATEMENTS, Certificate, certified
from rows import DEEP

# A construction, and which of its statements are proved for all weights.
PROVED = [
    ("nflows:AffineCouplingTransform", {"map/log-det", "map/log-det[inverse]", "map/inverse"}),
    ("nflows:LULinear", {"map/log-det", "map/log-det[inverse]", "map/inverse"}),
    ("nflows:BatchNorm", {"map/log-det", "map/log-det[inverse]"}),
    # Splines as zuko's below, through a coupling as the first.
    pytest.param(
        "nflows:PiecewiseRationalQuadraticCouplingTransform",
        {"map/log-det", "map/log-det[inverse]"},
        marks=DEEP,
    ),
    ("normflows:Planar[tanh]", {"map/log-det"}),
    ("zuko:MonotonicRQSTransform", {"map/log-det"}),
]
# Bugs of libraries, of which nothing is proved.
KNOWN = ["nflows:GatedLinearUnit[ctx]"]
NO_TORCH = (
    "import sys; sys.modules['torch'] = None; from flowref.cli import main; main(sys.argv[1:])"
)


def claims(spec: str, *statements: str) -> dict[str, Certificate]:
    """What is found of a target."""
    target = registry.parse_target(spec)
    laws = [registry.find_law(name) for name in statements or STATEMENTS]
    return {one.statement: one for one in certified(target, laws)}


@pytest.fixture(scope="module")
def coupling(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The certificate of a coupling's log-det."""
    path = tmp_path_factory.mktemp("proofs") / "coupling.json"
    claims("nflows:AffineCouplingTransform", "map/log-det")["map/log-det"].save(path)
    return path


@pytest.mark.parametrize(("spec", "statements"), PROVED)
def test_constructions_of_libraries_are_proved(spec: str, statements: set[str]) -> None:
    """For all weights, or all constants that they hold."""
    found = {name for name, one in claims(spec).items() if one.proof.proved}
    assert statements <= found


@pytest.mark.parametrize("spec", KNOWN)
def test_a_bug_is_not_proved(spec: str) -> None:
    """Of what is wrong there is no identity."""
    assert not claims(spec, "map/log-det")["map/log-det"].proof.proved


def test_a_file_says_what_was_proved(coupling: Path) -> None:
    """What is read is what was written, and it holds at other points."""
    claim = Certificate.load(coupling)
    assert claim.proof.proved and claim.target == "nflows:AffineCouplingTransform"
    assert claim.text().startswith("PROVED      map/log-det  nflows:AffineCouplingTransform")
    assert claim.check() and claim.check(seed=5)


def change(whole: dict[str, Any], op: str, other: str) -> None:
    """Exchange an operator for another one."""
    node = next(node for node in whole["graph"]["nodes"] if node[1] == op)
    node[1] = other


@pytest.mark.parametrize(("op", "other"), [("log", "exp"), ("sum", "mean")])
def test_a_graph_that_was_changed_does_not_hold(
    op: str, other: str, coupling: Path, tmp_path: Path
) -> None:
    """The claim is checked, and not believed."""
    whole = json.loads(coupling.read_text(encoding="utf-8"))
    changed = [node for node in whole["graph"]["nodes"] if node[1] == op][-1:]
    for node in changed:
        node[1] = other
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(whole), encoding="utf-8")
    assert not Certificate.load(path).check()


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"kind": "flowref certificate", "format": 99}'])
def test_a_file_that_is_none_is_one_sentence(text: str, tmp_path: Path) -> None:
    """What was expected is said."""
    path = tmp_path / "none.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ReportError, match="is no certificate of this version"):
        Certificate.load(path)


def test_checking_takes_no_torch(coupling: Path) -> None:
    """Nor any library."""
    run = subprocess.run(
        [sys.executable, "-c", NO_TORCH, "certificate", "check", str(coupling)],
        capture_output=True, text=True, timeout=PATIENCE, check=False, env=dict(os.environ),
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "holds  map/log-det  nflows:AffineCouplingTransform" in run.stdout


KEEPING = """
import torch
from torch import nn


class Kept(nn.Module):
    event_shape = (3,)

    def __init__(self):
        super().__init__()
        self.s = nn.Parameter(torch.tensor([0.3, -0.2, 0.1]))

    def forward(self, x):
        self.last = x
        self.came = x * self.s.exp() + x**3
        return self.came, (self.s.exp() + 3 * x**2).log().sum(-1)

    def inverse(self, z):
        return self.last


class OfItsOwn(Kept):
    def inverse(self, z):
        return self.last if z is self.came else z / self.s.exp()


class Density(Kept):
    def forward(self, x):
        self.logp = torch.distributions.Normal(0.0, 1.0).log_prob(x).sum(-1)
        z, told = super().forward(x)
        return z, told

    def log_prob(self, x):
        return self.logp
"""


@pytest.mark.parametrize("name", ["Kept", "OfItsOwn", "Density"])
def test_what_is_kept_of_a_call_proves_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An inverse that hands back what forward was given is none, nor where it knows the tensor that it gave."""
    (tmp_path / "keeping.py").write_text(KEEPING)
    monkeypatch.chdir(tmp_path)
    found = claims(f"keeping.py:{name}")
    proved = {one for one, claim in found.items() if claim.proof.proved}
    assert {one for one in proved if not one.startswith("gradient/")} <= {"map/log-det"}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (
            ("certify", "nflows:LULinear", "--laws", "map/log-det"),
            0,
            "1 of 1 statements are proved, 1 of them for all inputs",
        ),
        (("certify", "nflows:LULinear", "--laws", "map/log-dett"), 2, "did you mean map/log-det"),
        (
            ("certify", "torch:distributions.Exponential", "--laws", "map/inverse"),
            0,
            "it has no forward",
        ),
        (("certify", "nflows:None"), 2, "nflows has no construction 'None'"),
        (("certificate", "check", "none.json"), 2, "is no certificate"),
    ],
)
def test_the_command_line(words: tuple[str, ...], code: int, said: str) -> None:
    """What is asked is answered, and a mistake is one sentence."""
    result = CliRunner().invoke(main, words)
    assert result.exit_code == code and said in result.output
