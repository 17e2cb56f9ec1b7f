"""Surjections and random layers that say so are refused in words; densities that draw on their way are
lower bounds; bijections of the same protocol are audited.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status, TargetError

QUICK = Settings("quick")


class Transform(nn.Module):
    """The protocol, whose properties subclasses override."""

    event_shape = (2,)

    @property
    def bijective(self) -> bool:
        """Whether it is one-to-one."""
        raise NotImplementedError

    stochastic_forward = stochastic_inverse = False


class Affine(Transform):
    """A bijection."""

    bijective = True

    def __init__(self) -> None:
        super().__init__()
        self.s = nn.Parameter(torch.tensor([0.3, -0.2]))

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return x * self.s.exp(), self.s.sum().expand(len(x))

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return z * (-self.s).exp()


class Absolute(Affine):
    """A surjection, whose inverse draws a sign."""

    bijective = False
    stochastic_inverse = True

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return x.abs(), x.new_full((len(x),), -2 * math.log(2))

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return z * (2 * torch.bernoulli(torch.full_like(z, 0.5)) - 1)


class Slice(Affine):
    """A layer that adds noise and says what that contributes."""

    bijective = False
    stochastic_forward = True

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        u = torch.randn_like(x)
        gained = torch.distributions.Normal(x, 1.0).log_prob(x + u)
        told = torch.distributions.Normal(torch.zeros_like(x), 2.0).log_prob(x)
        return x + u, (told - gained).sum(1)


class Density(nn.Module):
    """A flow of layers of the protocol."""

    event_shape = (2,)

    def __init__(self, *layers: Transform) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def log_prob(self, x: Any) -> Any:
        """Of each row."""
        total = x.new_zeros(len(x))
        for layer in self.layers:
            x, ladj = layer(x)
            total = total + ladj
        return total - 0.5 * (x * x).sum(1) - math.log(2 * math.pi)


def test_a_bijection_of_the_protocol_is_audited() -> None:
    """As any other."""
    assert check(Affine(), "bijection/log-det", QUICK).status is Status.HOLDS


def test_a_surjection_is_refused_in_words() -> None:
    """No law of bijections is about it."""
    with pytest.raises(
        TargetError, match=r"bijective = False .its inverse is random.*audit the flow"
    ):
        check(Absolute(), "bijection/log-det", QUICK)


@pytest.mark.parametrize("law", ["conduct/deterministic", "mode/rows-independent"])
def test_a_density_that_draws_on_its_way_is_not_accused_of_it(law: str) -> None:
    """It is a random lower bound, as its layers say."""
    assert check(Density(Affine(), Slice()), law, QUICK).status is not Status.VIOLATED


def test_a_density_of_bijections_is_held_to_be_exact() -> None:
    """Nothing is excused."""
    verdict = check(Density(Affine(), Affine()), "density/integrates-to-one", QUICK)
    assert verdict.status is Status.HOLDS
