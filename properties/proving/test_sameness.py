"""Two objects that compute the same are proved to; where they differ, a point shows it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from flowref import registry
from flowref.cli import main
from flowref.model import TargetError
from flowref.proving import compare_targets

FLOWS = """
import torch
from torch import nn


class Old(nn.Module):
    event_shape = (4,)

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4))

    def parts(self, kept):
        return self.net(kept).chunk(2, -1)

    def forward(self, x):
        kept, moved = x.chunk(2, -1)
        s, t = self.parts(kept)
        return torch.cat([kept, moved * s.exp() + t], -1), s.sum(-1)

    def inverse(self, z):
        kept, moved = z.chunk(2, -1)
        s, t = self.parts(kept)
        return torch.cat([kept, (moved - t) * (-s).exp()], -1), -s.sum(-1)


class New(Old):
    def __init__(self):
        nn.Module.__init__(self)
        self.hidden, self.out = nn.Linear(2, 8), nn.Linear(8, 4)

    def parts(self, kept):
        grown = torch.exp(2 * self.hidden(kept))
        return self.out((grown - 1) / (grown + 1)).chunk(2, -1)


class Bug(New):
    def forward(self, x):
        z, told = super().forward(x)
        return z, told + 1e-3 * x[:, 0]


class Wide(Old):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 9), nn.Tanh(), nn.Linear(9, 4))


class Longer(Old):
    event_shape = (6,)

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 6))
"""
RESULTS = [
    "values of forward",
    "log-dets of forward",
    "values of the inverse",
    "log-dets of the inverse",
]


@pytest.fixture
def flows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of flows in the folder where a command is run."""
    (tmp_path / "flows.py").write_text(FLOWS)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("flows")
@pytest.mark.parametrize("other", ["Old", "New"])
def test_a_refactoring_is_proved(other: str) -> None:
    """All that both return, for all weights."""
    pair = compare_targets(
        registry.parse_target("flows.py:Old"), registry.parse_target(f"flows.py:{other}")
    )
    found = {one.result: one for one in pair.comparisons()}
    assert list(found) == RESULTS
    assert all(one.claim.proof.whole and one.difference is None for one in found.values())
    assert list(pair.renamed.values()) == [*pair.names.values()] * (other == "New")


@pytest.mark.usefixtures("flows")
def test_a_difference_is_shown() -> None:
    """In the result that differs alone, at a point."""
    pair = compare_targets(
        registry.parse_target("flows.py:Old"), registry.parse_target("flows.py:Bug")
    )
    found = {one.result: one for one in pair.comparisons()}
    wrong = found.pop("log-dets of forward")
    assert wrong.difference is not None and not wrong.claim.proof.proved
    shown = wrong.difference
    assert shown.other - shown.one == pytest.approx(1e-3 * shown.point[0])
    assert all(one.claim.proof.whole for one in found.values())


@pytest.mark.usefixtures("flows")
@pytest.mark.parametrize(
    ("other", "said"),
    [("Wide", "their weights do not correspond"), ("Longer", "takes events of shape")],
)
def test_what_cannot_be_compared_is_refused(other: str, said: str) -> None:
    """With what does not fit."""
    with pytest.raises(TargetError, match=said):
        compare_targets(
            registry.parse_target("flows.py:Old"), registry.parse_target(f"flows.py:{other}")
        )


@pytest.mark.usefixtures("flows")
@pytest.mark.parametrize(
    ("other", "code", "said"),
    [
        ("New", 0, "Weights matched in order: net.0.weight as hidden.weight"),
        ("New", 0, "PROVED      same values of forward  flows.py:Old and flows.py:New"),
        ("Bug", 1, "DIFFERENT   log-dets of forward: "),
        ("Wide", 2, "their weights do not correspond"),
        ("Newer", 2, "did you mean New"),
    ],
)
def test_the_command_line(other: str, code: int, said: str) -> None:
    """What is asked is answered, and a mistake is one sentence."""
    result = CliRunner().invoke(main, ["same", "flows.py:Old", f"flows.py:{other}"])
    assert result.exit_code == code and said in result.output
