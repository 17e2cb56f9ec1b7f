"""Correct code that computes with numbers in single precision is right to single precision; what is
wrong beside them is accused all the same.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from flowref import checking
from flowref.model import Status

CODE = """
import math
import torch
from torch import nn

TENTH = torch.tensor(0.1)
_W = torch.tensor([[1.3, 0.4, -0.2], [0.1, 0.7, 0.3], [-0.6, 0.2, 1.1]])
_INV, _LOG_DET = torch.inverse(_W), torch.linalg.slogdet(_W)[1]


class Tenth(nn.Module):
    event_shape = (3,)

    def forward(self, x):
        return TENTH * x, torch.full((len(x),), 3 * math.log(0.1), dtype=x.dtype)

    def inverse(self, z):
        return z / TENTH, torch.full((len(z),), -3 * math.log(0.1), dtype=z.dtype)


class Doubled(nn.Module):
    event_shape = (3,)
    LOG_2 = 0.693147  # six digits

    def forward(self, x):
        return 2 * x + TENTH, torch.full((len(x),), 3 * self.LOG_2, dtype=x.dtype)

    def inverse(self, z):
        return (z - TENTH) / 2, torch.full((len(z),), -3 * self.LOG_2, dtype=z.dtype)


class Mixed(nn.Module):
    event_shape = (3,)

    def __init__(self, w, inverse, log_det):
        super().__init__()
        self.register_buffer("w", w)
        self.register_buffer("v", inverse)
        self.register_buffer("log_det", log_det)

    def forward(self, x):
        return x @ self.w.T, self.log_det.expand(len(x))

    def inverse(self, z):
        return z @ self.v.T, -self.log_det.expand(len(z))


def enclosed():
    class Enclosed(nn.Module):
        event_shape = (3,)

        def forward(self, x):
            return x @ _W.T.to(x), torch.linalg.slogdet(_W)[1].expand(len(x)).to(x)

        def inverse(self, z):
            return z @ _INV.T.to(z), -torch.linalg.slogdet(_W.double())[1].expand(len(z)).to(z)

    return Enclosed()


# A coupling whose network computes in half precision; what changes the data does not.
class InHalf(nn.Module):
    event_shape = (4,)

    def __init__(self, kind=torch.bfloat16, wrong=""):
        super().__init__()
        self.kind, self.wrong = kind, wrong
        self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4))
        with torch.no_grad():
            for index, weight in enumerate(self.net.parameters()):
                steps = torch.arange(weight.numel()).reshape(weight.shape)
                weight.copy_(torch.cos(1.7 * steps + index))

    def scale_and_shift(self, a):
        half = a.to(self.kind)
        for layer in self.net:
            linear = isinstance(layer, nn.Linear)
            half = (
                nn.functional.linear(half, layer.weight.to(self.kind), layer.bias.to(self.kind))
                if linear
                else layer(half)
            )
        s, t = half.to(a).chunk(2, -1)
        return torch.tanh(s), t

    def forward(self, x):
        a, b = x.chunk(2, -1)
        s, t = self.scale_and_shift(a)
        added = s + t if self.wrong == "scale" else s
        ladj = added.to(self.kind).sum(-1).to(x) if self.wrong == "sum" else added.sum(-1)
        return torch.cat([a, b * s.exp() + t], -1), ladj

    def inverse(self, z):
        a, b = z.chunk(2, -1)
        s, t = self.scale_and_shift(a)
        return torch.cat([a, (b - t) * torch.exp(-s)], -1), -s.sum(-1)


def in_half():
    return InHalf()


def in_float16():
    return InHalf(torch.float16)


def wrong_scale():
    return InHalf(wrong="scale")


def summed_in_half():
    return InHalf(wrong="sum")


built = Mixed(_W, _INV, _LOG_DET)
forgot = Mixed(_W, _INV, _LOG_DET + 1e-4)
"""
LAWS = ("map/log-det", "map/inverse", "map/log-det[antisymmetry]")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file whose tensors are made in single precision when it is imported."""
    path = tmp_path_factory.mktemp("user") / "single.py"
    path.write_text(CODE)
    return path


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", ["Tenth", "enclosed", "built"])
def test_what_is_right_in_single_precision_is_right(name: str, law: str, file: Path) -> None:
    """Constants of a file, tensors that functions enclose and buffers of an object that is built
    already are off by their rounding from what was computed from them: that accuses nobody.
    """
    assert checking.pair_verdict(f"{file}:{name}", law).status is Status.HOLDS


@pytest.mark.parametrize("name", ["Doubled", "forgot"])
def test_what_is_wrong_beside_single_precision_is_accused(name: str, file: Path) -> None:
    """A logarithm typed with six digits is an error where a constant in single precision stands
    beside it, and so is an error of a log-det that single precision does not explain.
    """
    assert checking.pair_verdict(f"{file}:{name}", "map/log-det").status is Status.VIOLATED


@pytest.mark.parametrize(
    "law",
    [
        "map/inverse-jacobian",
        "gradient/parameters[log-det]",
        "gradient/input[log-det]",
        "gradient/input[value]",
    ],
)
@pytest.mark.parametrize("name", ["in_half", "in_float16"])
def test_derivatives_through_half_precision_accuse_nobody(name: str, law: str, file: Path) -> None:
    """A network that computes in half precision gives a map of steps: what differences and derivatives
    make of them is undecided.
    """
    verdict = checking.pair_verdict(f"{file}:{name}", law)
    assert verdict.status is not Status.VIOLATED, verdict.reason


@pytest.mark.parametrize(
    ("name", "law", "status"),
    [
        ("in_half", "map/log-det", Status.HOLDS),
        ("in_half", "map/inverse", Status.HOLDS),
        ("wrong_scale", "map/log-det", Status.VIOLATED),
        ("summed_in_half", "map/log-det[antisymmetry]", Status.VIOLATED),
    ],
)
def test_half_precision_excuses_no_more(name: str, law: str, status: Status, file: Path) -> None:
    """Values are compared as they are, and a log-det that is off by more than half precision is wrong."""
    assert checking.pair_verdict(f"{file}:{name}", law).status is status
