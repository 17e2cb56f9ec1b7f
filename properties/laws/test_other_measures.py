"""Densities that mean no volume: masses of values, and areas of surfaces. Samples are held against the former;
of the latter nothing is said, unless the density falls beside the surface, as one of a volume does.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status

QUICK = Settings("quick")
LAWS = (
    "sampling/follows-density[ratios]",
    "sampling/follows-density",
    "sampling/follows-density[balance]",
)


class Bits(nn.Module):
    """Two bits, of which the second depends on the first; the formula gives numbers elsewhere, too."""

    event_shape = (2,)

    def __init__(self, bug: str = "") -> None:
        super().__init__()
        self.bug, self.weight = bug, nn.Parameter(torch.tensor([0.4, -1.2]))

    def logits(self, x: Any) -> Any:
        """Of each bit."""
        first = self.weight[0].expand(len(x))
        return torch.stack([first, self.weight[1] * x[:, 0]], 1)

    def log_prob(self, x: Any) -> Any:
        """The logarithm of a mass."""
        logits = -self.logits(x) if self.bug == "sign" else self.logits(x)
        return (x * logits - nn.functional.softplus(logits)).sum(1)

    @torch.no_grad()
    def sample(self, count: int) -> Any:
        """Zeros and ones."""
        x = torch.zeros(count, 2, dtype=self.weight.dtype)
        for place in range(2):
            x[:, place] = torch.bernoulli(torch.sigmoid(self.logits(x)[:, place]))
        return x


class Sphere(nn.Module):
    """The distribution of von Mises and Fisher, with respect to the area of the sphere."""

    event_shape = (3,)

    def __init__(self) -> None:
        super().__init__()
        self.log_rate = nn.Parameter(torch.tensor(0.5))

    def log_prob(self, x: Any) -> Any:
        """Per area."""
        rate = self.log_rate.exp()
        constant = self.log_rate - math.log(2 * math.pi) - rate - torch.log1p(-torch.exp(-2 * rate))
        return rate * x[:, 2] + constant

    @torch.no_grad()
    def sample(self, count: int) -> Any:
        """By its height, and an angle."""
        rate, u = self.log_rate.exp(), torch.rand(2, count, dtype=self.log_rate.dtype)
        height = 1 + torch.log(u[0] + (1 - u[0]) * torch.exp(-2 * rate)) / rate
        around, angle = torch.sqrt(1 - height**2), 2 * math.pi * u[1]
        return torch.stack([around * torch.cos(angle), around * torch.sin(angle), height], 1)


class Ellipsoid(Sphere):
    """Its image under a stretch, with respect to the area that it was before."""

    def log_prob(self, x: Any) -> Any:
        """Per area of the sphere."""
        return super().log_prob(x / x.new_tensor([1.0, 1.0, 2.0]))

    @torch.no_grad()
    def sample(self, count: int) -> Any:
        """Stretched."""
        x = super().sample(count)
        return x * x.new_tensor([1.0, 1.0, 2.0])


class Angle(nn.Module):
    """A density of an angle, $(1 + a cos x) / 2 pi$ at any number, and samples of one turn."""

    event_shape = (1,)

    def __init__(self) -> None:
        super().__init__()
        self.tilt = nn.Parameter(torch.tensor(0.4))

    def log_prob(self, x: Any) -> Any:
        """Per angle."""
        return torch.log1p(self.tilt * torch.cos(x[:, 0])) - math.log(2 * math.pi)

    @torch.no_grad()
    def sample(self, count: int) -> Any:
        """By rejection."""
        x = 2 * math.pi * torch.rand(8 * count, 1, dtype=self.tilt.dtype)
        kept = torch.rand(8 * count, dtype=x.dtype) * (1 + self.tilt)
        return x[kept < 1 + self.tilt * torch.cos(x[:, 0])][:count]


class Shared(nn.Module):
    """Three normal numbers; samples take one for all, or bend one into the others."""

    event_shape = (3,)

    def __init__(self, bent: bool) -> None:
        super().__init__()
        self.bent, self.mean = bent, nn.Parameter(torch.zeros(3))

    def log_prob(self, x: Any) -> Any:
        """Per volume."""
        return (-0.5 * (x - self.mean) ** 2 - 0.5 * math.log(2 * math.pi)).sum(1)

    @torch.no_grad()
    def sample(self, count: int) -> Any:
        """Too few numbers."""
        e = torch.randn(count, 2, dtype=self.mean.dtype)
        last = torch.sin(2 * e[:, :1]) if self.bent else e[:, 1:]
        return torch.cat([e, last], 1) + self.mean


def test_masses_of_bits_are_held() -> None:
    """What the formula gives for -1 and 2 is no mass."""
    assert check(Bits(), LAWS[0], QUICK).status is Status.HOLDS


def test_wrong_masses_of_bits_are_accused() -> None:
    """A sign."""
    assert check(Bits("sign"), LAWS[0], QUICK).status is Status.VIOLATED


@pytest.mark.parametrize("law", LAWS)
def test_areas_are_not_judged_as_volumes(law: str) -> None:
    """That is said, where no coordinates of the surface are known."""
    verdict = check(Ellipsoid(), law, QUICK)
    assert verdict.status is Status.INCONCLUSIVE
    assert verdict.reason


def test_samples_of_one_turn_are_those_of_an_angle() -> None:
    """They follow the density on one turn, whichever they are of."""
    assert check(Angle(), LAWS[0], QUICK).status is Status.HOLDS


@pytest.mark.parametrize("bent", [False, True])
def test_samples_that_do_not_fill_the_volume_are_accused(bent: bool) -> None:
    """They lie on a surface, beside which the density falls."""
    assert check(Shared(bent), LAWS[0], QUICK).status is Status.VIOLATED
