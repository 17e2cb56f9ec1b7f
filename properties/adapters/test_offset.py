"""A constant that log-dets count besides those of the map is declared, and is no excuse for another."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from flowref import checking
from flowref.adapters.user.conventions.offset import offset_of
from flowref.loading import recipe_of
from flowref.model import SpecError, Status
from flowref.registry import parse_target

CODE = """
import math
import torch
from torch import nn


class Levels(nn.Module):
    event_shape = (4,)

    def __init__(self, levels=256, flip=False):
        super().__init__()
        self.levels, self.flip = levels, flip
        self.log_scale = nn.Parameter(torch.tensor([0.1, -0.2, 0.3, 0.05]))

    def forward(self, x):
        log_det = self.log_scale.sum() - 4 * math.log(self.levels)
        return x * self.log_scale.exp(), log_det.expand(len(x))

    def inverse(self, z):
        log_det = self.log_scale.sum() - 4 * math.log(self.levels)
        return z * (-self.log_scale).exp(), (log_det if self.flip else -log_det).expand(len(z))

    def log_prob(self, x):
        z, log_det = self(x)
        return -0.5 * (z**2).sum(1) - 2 * math.log(2 * math.pi) + log_det

    def sample(self, n):
        return self.inverse(torch.randn(n, 4))[0]


class Both(nn.Module):
    event_shape = (2,)

    def forward(self, x):
        return 2 * x, x.new_full((len(x),), 2 * math.log(2))

    def backward(self, z):
        return z / 2

    reverse = backward
"""
LAWS = (
    "map/log-det", "map/log-det[inverse]", "map/log-det[antisymmetry]",
    "sampling/follows-density[ratios]",
)  # fmt: skip


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's file."""
    path = tmp_path_factory.mktemp("user") / "levels.py"
    path.write_text(CODE)
    return path


@pytest.mark.parametrize("law", LAWS)
def test_a_declared_offset_is_left_out(law: str, file: Path) -> None:
    """Log-dets of both directions and log-densities are judged without it."""
    spec = f"{file}:Levels?offset=-D*log(256)"
    assert checking.pair_verdict(spec, law).status is Status.HOLDS


@pytest.mark.parametrize("law", [LAWS[0], LAWS[3]])
@pytest.mark.parametrize("bug", ["", "offset=-D*log(256)&levels=128", "offset=D*log(256)"])
def test_another_offset_is_accused(bug: str, law: str, file: Path) -> None:
    """What is not declared, or declared as another constant, is an error of the log-det."""
    assert checking.pair_verdict(f"{file}:Levels?{bug}".rstrip("?"), law).status is Status.VIOLATED


@pytest.mark.parametrize(
    ("text", "value"), [("-D*log(256)", -3 * math.log(256)), ("2**3/4", 2.0), ("-1.5+D", 1.5)]
)
def test_an_offset_is_arithmetic(text: str, value: float) -> None:
    """Numbers, the number of entries and logarithms."""
    assert offset_of(text, 3) == pytest.approx(value)


@pytest.mark.parametrize(
    "text", ["Q*2", "log", "__import__('os')", "1/0", "log(-1)", "2 +", "True*'a'"]
)
def test_what_is_no_arithmetic_is_refused(text: str) -> None:
    """The sentence says what may stand there."""
    with pytest.raises(SpecError, match="expected numbers, D"):
        offset_of(text, 3)


def test_two_ways_back_that_agree_are_both_named(file: Path) -> None:
    """One of them is taken, and the line says that the other does the same."""
    recognized = recipe_of(parse_target(f"{file}:Both")).recognized
    assert "inverse: backward(), as reverse()" in recognized.conventions
