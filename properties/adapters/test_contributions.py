"""Surjections and random layers that say so are judged by what they contribute; densities that draw on
their way are lower bounds; bijections of the same protocol are audited.
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
    codomain: Any = "positive"

    def __init__(self, cost: float = 2.0) -> None:
        super().__init__()
        self.cost = cost

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return x.abs(), x.new_full((len(x),), -self.cost * math.log(2))

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
    assert check(Affine(), "map/log-det", QUICK).status is Status.HOLDS


@pytest.mark.parametrize("law", ["map/log-det", "same/history[repeat]"])
def test_laws_of_maps_are_not_about_a_surjection(law: str) -> None:
    """Nothing is held against it that it does not claim."""
    assert check(Absolute(), law, QUICK).status is Status.NOT_APPLICABLE


@pytest.mark.parametrize(
    "law", ["integral", "two-ways", "one-sided-inverse", "draws-as-told"], ids=str
)
def test_a_surjection_is_judged_by_what_it_contributes(law: str) -> None:
    """Laws of contributions hold for it."""
    assert check(Absolute(), f"contribution/{law}", QUICK).status is Status.HOLDS


def test_a_wrong_contribution_is_found() -> None:
    """One factor of two for two signs."""
    assert check(Absolute(1.0), "density/mass[contribution]", QUICK).status is Status.VIOLATED


def undeclared(factor: float) -> Absolute:
    """The absolute value without its codomain."""
    layer = Absolute(factor)
    layer.codomain = None
    return layer


def test_without_a_codomain_more_than_one_accuses() -> None:
    """However small the set of latents is, no density has a mass of more than 1."""
    assert check(undeclared(1.0), "density/mass[contribution]", QUICK).status is Status.VIOLATED


def test_without_a_codomain_the_way_back_tells_which_points_are_latents() -> None:
    """Where forward gives back any point that inverse was given, latents fill the set."""
    assert check(undeclared(2.0), "density/mass[contribution]", QUICK).status is Status.HOLDS
    assert check(undeclared(4.0), "density/mass[contribution]", QUICK).status is Status.VIOLATED


class Dequantization(Affine):
    """Whole numbers to the unit interval; the way back rounds down."""

    bijective = False
    stochastic_forward = True

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        u = torch.rand_like(x)
        return (x + u) / 256, x.new_full((len(x),), -x.shape[1] * math.log(256))

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return (256 * z).floor().clamp(0, 255).long()


@pytest.mark.parametrize("law", ["one-sided-inverse", "draws-as-told", "rows-independent"], ids=str)
def test_whole_numbers_are_not_taken_for_reals(law: str) -> None:
    """A layer of levels that nobody declares to be such is not accused for what it does to others."""
    assert check(Dequantization(), f"contribution/{law}", QUICK).status is Status.HOLDS


def test_a_surjection_needs_a_shape() -> None:
    """Its latents need not be of the shape of its events, so calls do not tell it."""
    layer = Absolute()
    layer.event_shape = None  # type: ignore[assignment]  # as a class without the attribute
    with pytest.raises(TargetError, match=r"stochastic or surjective.*\?event=3"):
        check(layer, "density/mass[contribution]", QUICK)


@pytest.mark.parametrize("law", ["same/history[repeat]", "same/rows"])
def test_a_density_that_draws_on_its_way_is_not_accused_of_it(law: str) -> None:
    """It is a random lower bound, as its layers say."""
    assert check(Density(Affine(), Slice()), law, QUICK).status is not Status.VIOLATED


def test_a_density_of_bijections_is_held_to_be_exact() -> None:
    """Nothing is excused."""
    verdict = check(Density(Affine(), Affine()), "density/mass", QUICK)
    assert verdict.status is Status.HOLDS
