"""What a documentation says on purpose accuses nobody, and without it the same is accused."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.adapters.common.documentation import BESIDE_THE_ROOT, NEGATED
from flowref.checking import Settings
from flowref.model import Status

QUICK = Settings("quick")


class Negated(nn.Module):
    """A scale that returns minus the log-det, as energies have it."""

    event_shape = (3,)

    def __init__(self) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor([0.4, -0.3, 0.2]))

    def forward(self, x: Any) -> Any:
        """To latents."""
        return x * self.log_scale.exp(), -self.log_scale.sum().expand(len(x))

    def inverse(self, z: Any) -> Any:
        """To data."""
        return z * (-self.log_scale).exp(), self.log_scale.sum().expand(len(z))


class Standardizing(nn.Module):
    """(x - mean) / (std + eps) per channel."""

    running_mean: Any
    running_std: Any
    event_shape = (3,)

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(3)), nn.Parameter(torch.zeros(3))
        self.register_buffer("running_mean", torch.zeros(3))
        self.register_buffer("running_std", torch.ones(3))

    def forward(self, x: Any) -> Any:
        """To the next layer."""
        mean, std = self.running_mean, self.running_std
        if self.training:
            mean, std = x.mean(0), (x.var(0, unbiased=False) + 1e-14).sqrt()
            with torch.no_grad():
                self.running_mean = self.running_mean + 0.1 * (mean - self.running_mean)
                self.running_std = self.running_std + 0.1 * (std - self.running_std)
        return self.weight * (x - mean) / (std + 1e-2) + self.bias


class ClippedBatchNorm(nn.BatchNorm1d):
    """Batch normalization, clipped to five deviations."""

    def __init__(self) -> None:
        super().__init__(3)

    def forward(self, x: Any) -> Any:
        """To the next layer."""
        return super().forward(x).clamp(-5, 5)


def undocumented(kind: type[nn.Module]) -> nn.Module:
    """The same, of which nothing is said."""
    obj = kind()
    obj.__class__ = type(kind.__name__, (kind,), {"__doc__": ""})
    return obj


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        (Negated, "map/log-det"),
        (Standardizing, "batch-norm/train-map[deviation]"),
        (ClippedBatchNorm, "batch-norm/eval-map"),
    ],
    ids=["sign", "eps", "clip"],
)
def test_what_is_documented_is_meant(kind: type[nn.Module], law: str) -> None:
    """It is accused only where nothing says it."""
    assert check(kind(), law, QUICK).status is not Status.VIOLATED
    assert check(undocumented(kind), law, QUICK).status is Status.VIOLATED


@pytest.mark.parametrize(
    ("pattern", "text", "said"),
    [
        (BESIDE_THE_ROOT, "(x - mean) / (std + eps)", True),
        (BESIDE_THE_ROOT, "(x - m) / (sqrt(v) + eps)", True),
        (BESIDE_THE_ROOT, "(x - mean) / sqrt(var + eps)", False),
        (BESIDE_THE_ROOT, "divided by the root of running_var + eps", False),
        (NEGATED, "x -> (u, -log|det du/dx|)", True),
        (NEGATED, "``nlj`` is MINUS the log absolute determinant", True),
        (NEGATED, "log p(x) = log p(z) - log|det dz/dx|", False),
        (NEGATED, "the base density minus the log-det", False),
    ],
)
def test_what_everybody_writes_says_nothing(pattern: str, text: str, said: bool) -> None:
    """A formula of a density takes a log-det away, and the root of a variance plus eps is the usual one."""
    assert bool(re.search(pattern, text, re.IGNORECASE)) is said


class Usual(nn.BatchNorm1d):
    """Not (x - mean) / (std + eps), but by the root."""

    def __init__(self) -> None:
        super().__init__(3)


def test_words_alone_excuse_nothing() -> None:
    """A layer that divides by the root is a batch norm, whatever formula stands in its text."""
    assert check(Usual(), "batch-norm/train-map[deviation]", QUICK).status is Status.HOLDS


class Tempered(nn.Module):
    """A normal density of which the sampler takes how many by its third argument."""

    event_shape = (2,)

    def __init__(self) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor([0.4, -0.3]))

    def log_prob(self, x: Any, context: Any = None) -> Any:
        """Log-densities."""
        mean = 0.0 if context is None else context
        return torch.distributions.Normal(mean, self.log_scale.exp()).log_prob(x).sum(-1)

    @torch.no_grad()
    def sample(self, context: Any = None, temperature: float = 1.0, n: int = 1) -> Any:
        """So many points."""
        rows = n if context is None else max(n, context.shape[0])
        noise = temperature * self.log_scale.exp() * torch.randn(rows, 2).to(self.log_scale)
        return noise if context is None else noise + context


@pytest.mark.parametrize("law", ["map/calls-work", "sampling/follows-density[ratios]"])
def test_how_many_samples_may_be_a_keyword(law: str) -> None:
    """It is found by its name."""
    assert check(Tempered(), law, QUICK).status is Status.HOLDS


class Absolute(nn.Module):
    """The absolute value, of which the way back draws the sign; with its density."""

    event_shape = (2,)

    def __init__(self) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor([0.4, -0.3]))

    def forward(self, x: Any) -> Any:
        """To latents, and what that contributes."""
        z = (x * self.log_scale.exp()).abs()
        return z, self.log_scale.sum() + x.new_full((len(x),), 0.5).log() * 2

    def inverse(self, z: Any) -> Any:
        """One of the points that go there."""
        return z * torch.where(torch.rand_like(z) < 0.5, 1.0, -1.0) * (-self.log_scale).exp()

    def log_prob(self, x: Any) -> Any:
        """With half-normal latents."""
        z, contribution = self(x)
        return torch.distributions.HalfNormal(1.0).log_prob(z).sum(-1) + contribution


@pytest.mark.parametrize(
    "law", ["map/log-det", "map/one-to-one[orientation]", "same/history[repeat]"]
)
def test_a_layer_that_draws_beside_a_density_is_no_bijection(law: str) -> None:
    """The way back undoes the layer, whatever it draws."""
    assert check(Absolute(), law, QUICK).status is not Status.VIOLATED


class KeptInDouble(Negated):
    """Statistics stay in double precision whatever the module is cast to; it returns minus the log-det."""

    total: Any

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3, dtype=torch.float64))

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        kept = self.total
        moved: Any = super()
        moved._apply(fn, recurse)
        self.total = kept
        return self


def test_a_module_may_say_what_is_cast() -> None:
    """By a method of its own."""
    assert check(KeptInDouble(), "dtype/follows[cast]", QUICK).status is Status.HOLDS
