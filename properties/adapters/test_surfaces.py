"""What is on a surface is judged there: maps and densities of the unit sphere, densities on a subspace."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from flowref import checking, registry
from flowref.checking import Settings
from flowref.loading.recipe import recipe_of
from flowref.model import Status

SPHERE, SUBSPACE = "on the unit sphere S^2", "on a subspace of 4 dimensions"


class Stretched(nn.Module):
    """The sphere of R^3 by $x -> A x / |A x|$, with the log-det of areas, $log |det A| - 3 log |A x|$."""

    event_shape = (3,)

    def __init__(self, off: float = 0.0) -> None:
        super().__init__()
        self.off = off
        self.scale = nn.Parameter(torch.tensor([1.3, 0.8, 1.1]))

    def forward(self, x: Any) -> Any:
        """To the sphere."""
        y = x * self.scale
        length = y.norm(dim=-1, keepdim=True)
        return y / length, self.scale.log().sum() - (3 - self.off) * length[:, 0].log()

    def inverse(self, y: Any) -> Any:
        """Back."""
        x = y / self.scale
        length = x.norm(dim=-1, keepdim=True)
        return x / length, -self.scale.log().sum() - (3 - self.off) * length[:, 0].log()


class Radial(nn.Module):
    """A map of R^3 that keeps the unit sphere, and none of it alone: $x |x|^{p - 1}$."""

    event_shape = (3,)

    def __init__(self) -> None:
        super().__init__()
        self.power = nn.Parameter(torch.tensor(1.5))

    def forward(self, x: Any) -> Any:
        """To latents."""
        length = x.norm(dim=-1, keepdim=True)
        ladj = self.power.log() + 3 * (self.power - 1) * length[:, 0].log()
        return x * length ** (self.power - 1), ladj


class Girdle(nn.Module):
    """A density of the circle, $1 + a x_1$ over its length."""

    event_shape = (2,)

    def __init__(self, length: float = 2 * math.pi) -> None:
        super().__init__()
        self.length = length
        self.tilt = nn.Parameter(torch.tensor(0.4))

    def log_prob(self, x: Any) -> Any:
        """Per length."""
        return torch.log1p(self.tilt * x[:, 0]) - math.log(self.length)

    @torch.no_grad()
    def sample(self, n: int) -> Any:
        """By rejection."""
        x = nn.functional.normalize(torch.randn(8 * n, 2, dtype=self.tilt.dtype), dim=-1)
        kept = torch.rand(8 * n, dtype=x.dtype) * (1 + self.tilt) < 1 + self.tilt * x[:, 0]
        return x[kept][:n]


class Centred(nn.Module):
    """A round normal of three points of a plane whose mean is zero, per volume of their subspace."""

    event_shape = (3, 2)

    def __init__(self, dimensions: int = 4) -> None:
        super().__init__()
        self.dimensions = dimensions
        self.log_scale = nn.Parameter(torch.tensor(0.3))

    def log_prob(self, x: Any) -> Any:
        """Per volume."""
        square = (x * x).sum((-1, -2)) * (-2 * self.log_scale).exp()
        return -0.5 * square - self.dimensions * (self.log_scale + 0.5 * math.log(2 * math.pi))

    @torch.no_grad()
    def sample(self, n: int) -> Any:
        """Noise without its mean."""
        x = torch.randn(n, 3, 2, dtype=self.log_scale.dtype)
        return self.log_scale.exp() * (x - x.mean(1, keepdim=True))


class Shares(nn.Module):
    """Dirichlet's density of three shares, per volume of the first two."""

    event_shape = (3,)

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.tensor([2.0, 3.0, 4.0]))

    def log_prob(self, x: Any) -> Any:
        """Per volume; nothing where a share is none."""
        inside = (x > 0).all(-1)
        shares = torch.where(inside[:, None], x, torch.full_like(x, 1 / 3))
        constant = torch.lgamma(self.weights.sum()) - torch.lgamma(self.weights).sum()
        told = ((self.weights - 1) * shares.log()).sum(-1) + constant
        return torch.where(inside, told, torch.full_like(told, -math.inf))

    @torch.no_grad()
    def sample(self, n: int) -> Any:
        """Of gamma variables."""
        x = torch.distributions.Gamma(self.weights, 1.0).sample((n,))
        return x / x.sum(-1, keepdim=True)


def stretched_off() -> nn.Module:
    """One length is forgotten."""
    return Stretched(1.0)


def girdle_of_the_sphere() -> nn.Module:
    """The area of the sphere in place of the length of the circle."""
    return Girdle(4 * math.pi)


def centred_of_all() -> nn.Module:
    """All coordinates are counted."""
    return Centred(6)


# What is audited -> how it is read, and which of its laws are violated.
ROWS: dict[str, tuple[str, set[str]]] = {
    "Stretched": (SPHERE, set()),
    "stretched_off": (SPHERE, {"map/log-det"}),
    "Radial": ("", set()),
    "Girdle": ("on the unit circle", set()),
    "girdle_of_the_sphere": ("on the unit circle", {"density/mass"}),
    "Centred": (SUBSPACE, set()),
    "Shares": ("on the simplex of 3 entries", set()),
    "centred_of_all": (SUBSPACE, {"sampling/follows-density[ratios]"}),
}
LAWS = (
    "map/log-det", "map/log-det[inverse]", "map/inverse", "map/one-to-one[orientation]", "map/finite",
    "density/mass", "sampling/follows-density[ratios]", "density/base-constant[quadratic-form]",
)  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_what_is_on_a_surface_is_judged_there(name: str) -> None:
    """A right one holds, and a wrong one is accused."""
    target = registry.parse_target(f"{__name__}:{name}")
    surface, wrong = ROWS[name]
    said = recipe_of(target).recognized.conventions
    assert any(surface in one for one in said) if surface else "coordinates" not in " ".join(said)
    verdicts = [checking.check(target, law, Settings(profile="quick")) for law in LAWS]
    violated = {one.law for one in verdicts if one.status is Status.VIOLATED}
    assert wrong <= violated if wrong else not violated, verdicts
