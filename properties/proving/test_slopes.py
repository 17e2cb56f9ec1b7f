"""Gradients are proved where the framework's are the derivatives, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowref import registry
from flowref.proving import Certificate, certified

VALUE, LOG_DET = "gradient/input[value]", "gradient/input[log-det]"
WEIGHTS, WEIGHTS_OF_LOG_DET = "gradient/parameters[value]", "gradient/parameters[log-det]"
ALL = (VALUE, LOG_DET, WEIGHTS, WEIGHTS_OF_LOG_DET)
FLOWS = """
import torch
from torch import nn
import torch.nn.functional as F


class Exp(torch.autograd.Function):
    factor = 1.0

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.exp())
        return x.exp()

    @classmethod
    def backward(cls, ctx, grad):
        return grad * ctx.saved_tensors[0]


class TwiceExp(Exp):
    @staticmethod
    def backward(ctx, grad):
        return 2 * grad * ctx.saved_tensors[0]


class Affine(nn.Module):
    event_shape = (3,)

    def __init__(self):
        super().__init__()
        self.s = nn.Parameter(torch.tensor([0.3, -0.2, 0.1]))
        self.b = nn.Parameter(torch.tensor([0.5, 0.1, -0.4]))

    def scale(self):
        return self.s.exp()

    def forward(self, x):
        a = self.scale()
        return x * a + self.b, a.log().sum().expand(len(x))


class OwnBackward(Affine):
    def scale(self):
        return Exp.apply(self.s)


class WrongBackward(Affine):
    def scale(self):
        return TwiceExp.apply(self.s)


class Detached(Affine):
    def scale(self):
        return self.s.detach().exp()


class Cached(Affine):
    kept = None

    def train(self, mode=True):
        self.kept = None
        return super().train(mode)

    def scale(self):
        if self.training:
            return self.s.exp()
        if self.kept is None:
            self.kept = self.s.exp().detach()
        return self.kept


class Masked(Affine):
    def __init__(self):
        super().__init__()
        self.mask = [torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)]

    def scale(self):
        return (self.s * self.mask[0]).exp()


class WithoutGrad(Affine):
    def scale(self):
        with torch.no_grad():
            return self.s.exp()


class HalfDetached(Affine):
    def scale(self):
        return (0.5 * self.s + 0.5 * self.s.detach()).exp()


class Hooked(Affine):
    def scale(self):
        found = self.s.exp()
        if found.requires_grad:
            found.register_hook(lambda grad: 0.9 * grad)
        return found


class LogDetDetached(Affine):
    def forward(self, x):
        z, told = super().forward(x)
        return z, told.detach()


class Rows(Affine):
    def forward(self, x):
        z, told = super().forward(x)
        return z + 0 * x.detach().mean(0), told


class Moments(Affine):
    def forward(self, x):
        z, told = super().forward(x)
        return z * torch.ones(3).cumsum(0), told + torch.log(torch.tensor(6.0))


class Rectified(Affine):
    def forward(self, x):
        z, told = super().forward(x)
        return z + F.relu(x) + F.leaky_relu(x, 0.1), told + 0 * x.sum(-1)


class StraightThrough(Affine):
    def forward(self, x):
        z, told = super().forward(x)
        return z + (torch.tanh(x) - x).detach() + x, told


class Gathered(Affine):
    def forward(self, x):
        z, told = super().forward(x)
        return z + torch.gather(x * self.s, 1, torch.tensor([[0, 0, 2]]).expand(len(x), 3)), told


class Convolved(Affine):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 2, 3, padding=1)

    def forward(self, x):
        z, told = super().forward(x)
        return z + self.conv(x[:, None]).sum(1), told
"""
# A flow, and which of its gradients are the derivatives.
RIGHT = [
    ("Affine", ALL),
    ("OwnBackward", ALL),
    ("WrongBackward", (VALUE, LOG_DET)),
    ("Detached", (VALUE, LOG_DET)),
    ("Cached", (VALUE, LOG_DET)),
    ("Masked", ALL),
    ("WithoutGrad", (VALUE, LOG_DET)),
    ("HalfDetached", (VALUE, LOG_DET)),
    ("Hooked", (VALUE, LOG_DET)),
    ("LogDetDetached", (VALUE, LOG_DET, WEIGHTS)),
    ("Rows", ALL),
    ("Moments", ALL),
    ("Rectified", ALL),
    ("StraightThrough", (LOG_DET, WEIGHTS, WEIGHTS_OF_LOG_DET)),
    ("Gathered", ALL),
    ("Convolved", ALL),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of flows."""
    path = tmp_path_factory.mktemp("slopes")
    (path / "slopes.py").write_text(FLOWS)
    return path


def proofs(folder: Path, name: str, *laws: str) -> dict[str, Certificate]:
    """What is found of the gradients of a flow."""
    target = registry.parse_target(f"{folder / 'slopes.py'}:{name}")
    return {one.statement: one for one in certified(target, map(registry.find_law, laws))}


@pytest.mark.parametrize(("name", "right"), RIGHT)
def test_what_is_the_derivative_is_proved(name: str, right: tuple[str, ...], folder: Path) -> None:
    """For all inputs and weights; and of what is none nothing is."""
    found = proofs(folder, name, *ALL)
    assert {law for law, claim in found.items() if claim.proof.whole} == set(right)
    assert not [law for law, claim in found.items() if claim.proof.proved and law not in right]


def test_a_gradient_is_checked_from_its_file(folder: Path, tmp_path: Path) -> None:
    """At other points of other fields."""
    (claim,) = proofs(folder, "Rectified", WEIGHTS).values()
    claim.save(tmp_path / "slope.json")
    assert Certificate.load(tmp_path / "slope.json").check()


def test_of_no_parameters_nothing_is_proved() -> None:
    """A statement about none would hold of everything."""
    target = registry.parse_target("nflows:IdentityTransform")
    laws = map(registry.find_law, (WEIGHTS, WEIGHTS_OF_LOG_DET))
    assert not any(one.applies for one in certified(target, laws))
