"""Layers that draw and do not say so are known by what calls of them do; noise in a bijection is none."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.loading.recipe import recipe_of
from flowref.model import Status
from flowref.registry.specs import parse_target

QUICK = Settings("quick")
HALF = 0.5 * math.log(2 * math.pi)


class Walk(nn.Module):
    """A step of a random walk that is accepted by the energy (x - 1)^2 / 2, either way."""

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, x: Any, inverse: bool = False) -> Any:
        """The next state, and the change of the energy."""
        there = x + torch.randn_like(x)
        rise = 0.5 * ((there - 1).square() - (x - 1).square()).sum(1, keepdim=True)
        moves = torch.rand_like(rise) < torch.exp(-rise / self.temperature)
        return torch.where(moves, there, x), torch.where(moves, rise, torch.zeros_like(rise))


class Forget(nn.Module):
    """It forgets the last of three numbers."""

    def __init__(self, spread: float = 1.0) -> None:
        super().__init__()
        self.spread = spread

    def forward(self, x: Any) -> Any:
        """Two numbers, and the log-density of the third."""
        return x[:, :2], -(0.5 * x[:, 2].square() + HALF)

    def inverse(self, z: Any) -> Any:
        """Three numbers."""
        return torch.cat([z, self.spread * torch.randn_like(z[:, :1])], 1)


class Fold(nn.Module):
    """It forgets signs."""

    def forward(self, x: Any) -> Any:
        """Absolute values."""
        return x.abs(), torch.full_like(x[:, 0], -x.shape[1] * math.log(2))

    def inverse(self, z: Any) -> Any:
        """Signs by the toss of a coin."""
        return torch.where(torch.rand_like(z) < 0.5, z, -z)


class Extend(nn.Module):
    """It adds one number."""

    def forward(self, x: Any) -> Any:
        """Noise beside the data, and what it costs."""
        noise = torch.randn_like(x[:, :1])
        return torch.cat([x, noise], 1), 0.5 * noise[:, 0].square() + HALF

    def inverse(self, z: Any) -> Any:
        """The data."""
        return z[:, :2]


class Dropping(nn.Module):
    """Couplings of two numbers, with dropout that eval mode does not end; they undo themselves in the
    other order, and so with other noise.
    """

    def forward(self, x: Any) -> Any:
        """There."""
        ladj = torch.zeros_like(x[:, 0])
        for _ in range(3):
            s = nn.functional.dropout(torch.tanh(x[:, :1]), 0.2, training=True)
            x, ladj = torch.cat([x[:, 1:] * s.exp(), x[:, :1]], 1), ladj + s[:, 0]
        return x, ladj

    def inverse(self, z: Any) -> Any:
        """Back."""
        ladj = torch.zeros_like(z[:, 0])
        for _ in range(3):
            s = nn.functional.dropout(torch.tanh(z[:, 1:]), 0.2, training=True)
            z, ladj = torch.cat([z[:, 1:], z[:, :1] * (-s).exp()], 1), ladj - s[:, 0]
        return z, ladj


class Noisy(nn.Module):
    """A bijection into which noise came: on the way there, back, or in what both go by."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where

    def log_scale(self, x: Any) -> Any:
        """What the second number is multiplied by, as a logarithm."""
        scale = torch.tanh(x[:, :1])
        return nn.functional.dropout(scale, training=True) if self.where == "network" else scale

    def forward(self, x: Any) -> Any:
        """There."""
        noise = 1e-3 * torch.randn_like(x) * (self.where == "forward")
        s = self.log_scale(x)
        return torch.cat([x[:, :1], x[:, 1:] * s.exp()], 1) + noise, s[:, 0]

    def inverse(self, z: Any) -> Any:
        """Back."""
        noise = 1e-3 * torch.randn_like(z) * (self.where == "inverse")
        s = self.log_scale(z)
        return torch.cat([z[:, :1], z[:, 1:] * (-s).exp()], 1) + noise, -s[:, 0]


class Root(nn.Module):
    """Square roots of positive numbers: nan of negative ones. It declares no domain."""

    def forward(self, x: Any) -> Any:
        """2 sqrt(x)."""
        return 2 * x.sqrt(), -0.5 * x.log().sum(1)

    def inverse(self, z: Any) -> Any:
        """z^2 / 4, and the log-det there."""
        return z.square() / 4, (z.log() - math.log(2)).sum(1)


def root() -> nn.Module:
    """Of positive numbers."""
    return Root()


def walk(temperature: str = "1") -> nn.Module:
    """At a temperature by which it accepts."""
    return Walk(float(temperature))


def forget(spread: str = "1") -> nn.Module:
    """With a spread of what it draws for what it forgot."""
    return Forget(float(spread))


def fold() -> nn.Module:
    """Absolute values."""
    return Fold()


def extend() -> nn.Module:
    """With noise beside the data."""
    return Extend()


def dropping() -> nn.Module:
    """With noise in what several couplings go by."""
    return Dropping()


def noisy(where: str) -> nn.Module:
    """With noise somewhere."""
    return Noisy(where)


KINDS = {
    "walk?event=2": "random layer with inverse",
    "forget?event=3": "surjection that forgets with inverse",
    "fold?event=2": "surjection that forgets with inverse",
    "extend?event=2": "surjection that adds with inverse",
    "walk?event=2&kind=bijection": "bijection with inverse",
    "noisy?event=2&where=forward": "bijection with inverse",
    "noisy?event=2&where=inverse": "bijection with inverse",
    "noisy?event=2&where=network": "bijection with inverse",
    "dropping?event=2": "bijection with inverse",
    "root?event=2": "bijection with inverse",
}


@pytest.mark.parametrize("target", KINDS)
def test_calls_tell_what_draws(target: str) -> None:
    """Nothing is said of it."""
    recognized = recipe_of(parse_target(f"{__name__}:{target}")).recognized
    assert recognized.kind == KINDS[target]


@pytest.mark.parametrize(
    "spec", ["noisy?where=forward", "noisy?where=inverse", "noisy?where=network", "dropping?"]
)
def test_noise_in_a_bijection_is_accused(spec: str) -> None:
    """Wherever it is."""
    target = f"{__name__}:{spec}&event=2".replace("?&", "?")
    assert check(target, "same/history[repeat]", QUICK).status is Status.VIOLATED


@pytest.mark.parametrize(
    ("target", "law", "status"),
    [
        ("walk?event=2", "density/mass[contribution]", Status.HOLDS),
        ("walk?event=2&temperature=3", "density/mass[contribution]", Status.VIOLATED),
        ("forget?event=3", "kernel/follows-contribution", Status.HOLDS),
        ("forget?event=3&spread=2", "kernel/follows-contribution", Status.VIOLATED),
        ("extend?event=2", "kernel/follows-contribution", Status.HOLDS),
    ],
)
def test_what_draws_is_judged_as_a_layer(target: str, law: str, status: Status) -> None:
    """Where latents lie is not declared: that they fill the space the mass of the density tells."""
    assert check(f"{__name__}:{target}", law, QUICK).status is status


class Cancelling(nn.Module):
    """A density by an added number, which as built is as likely where it is added as where it is taken."""

    def __init__(self) -> None:
        super().__init__()
        self.added = Drawing()
        self.scale = nn.Parameter(torch.zeros(1))

    def log_prob(self, x: Any) -> Any:
        """One draw of a lower bound."""
        noise, cost = self.added(x)
        stretched = noise * self.scale.exp()
        return (
            (-0.5 * x.square() - HALF).sum(1) + cost - 0.5 * stretched.square() - HALF + self.scale
        )

    def sample(self, n: int) -> Any:
        """From what it is a bound of."""
        return torch.randn(n, 2, dtype=self.scale.dtype)


class Drawing(nn.Module):
    """The number, and what it costs; it says that it draws."""

    stochastic_forward, stochastic_inverse = True, False

    def forward(self, x: Any) -> Any:
        """For each row."""
        noise = torch.randn_like(x[:, 0])
        return noise, 0.5 * noise.square()


def cancelling() -> nn.Module:
    """A bound that differs from draw to draw as soon as it is trained."""
    return Cancelling()


def test_a_bound_is_random_though_draws_cancel_as_built() -> None:
    """Its part says that it draws: other weights show it, and then it is no likelihood that drifts."""
    target = f"{__name__}:cancelling?event=2"
    assert recipe_of(parse_target(target)).facts.promises["estimator"]
    assert check(target, "same/history[repeat]", QUICK).status is not Status.VIOLATED
