"""Weights whose variance is infinite: a mass that they lack may be what was not drawn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.laws.common.statistics import infinite_variance, pareto_shape
from flowref.model import Status
from rows import crossed

QUICK = Settings("quick")
LAWS = (
    "density/mass[contribution]",
    "kernel/follows-contribution",
    "kernel/follows-contribution[near-pairs]",
)


@pytest.mark.parametrize("shape", [0.1, 0.3, 0.7, 0.9])
def test_the_shape_of_a_tail_is_found(shape: float) -> None:
    """Of values that are drawn from a generalized Pareto distribution, give or take a tenth."""
    uniform = np.random.default_rng(0).random(4000)
    values = ((1 - uniform) ** -shape - 1) / shape
    assert pareto_shape(values) == pytest.approx(shape, abs=0.1)


@pytest.mark.parametrize(
    ("deviation", "infinite"), [(1.5, False), (1.0, False), (0.8, False), (0.6, True), (0.5, True)]
)
def test_infinite_variance_is_told(deviation: float, infinite: bool) -> None:
    """Weights of a standard normal drawn from one of less than 0.707 of its deviation have none."""
    drawn = deviation * np.random.default_rng(1).standard_normal(80_000)
    weights = np.exp(-0.5 * drawn**2 + 0.5 * (drawn / deviation) ** 2) * deviation
    assert infinite_variance(weights) is infinite


class Augment(nn.Module):
    """A number is added that is drawn around the data, with a deviation that is learned."""

    stochastic_forward, stochastic_inverse, bijective = True, False, False
    event_shape, codomain = (2,), "real"

    def __init__(self, bug: str = "") -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 16), nn.SiLU(), nn.Linear(16, 2))
        self.bug = bug

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The data with the number behind, and minus its log-density."""
        mean, log_scale = self.net(x).chunk(2, -1)
        added = torch.distributions.Normal(mean, log_scale.exp())
        drawn = added.rsample()
        told = added.log_prob(drawn).sum(-1)
        if self.bug == "twice":
            told = told * 2
        return torch.cat([x, drawn], -1), told if self.bug == "sign" else -told

    def inverse(self, z: torch.Tensor) -> torch.Tensor:
        """The data."""
        return z[:, 1:] if self.bug == "order" else z[:, :2]


def augment(bug: str = "") -> nn.Module:
    """With weights of one seed."""
    torch.manual_seed(0)
    return Augment(bug)


class Code(nn.Module):
    """A variational autoencoder as a layer."""

    stochastic_forward = stochastic_inverse = True
    bijective = False
    event_shape, latent_shape, codomain = (3,), (2,), "real"

    def __init__(self, bug: str = "") -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(3, 20), nn.GELU(), nn.Linear(20, 4))
        self.decoder = nn.Sequential(nn.Linear(2, 20), nn.GELU(), nn.Linear(20, 6))
        self.bug = bug

    @staticmethod
    def _around(moments: torch.Tensor) -> torch.distributions.Normal:
        mean, log_scale = moments.chunk(2, -1)
        return torch.distributions.Normal(mean, log_scale.exp())

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """A code, and how much likelier the data are of it than it is of the data."""
        code = self._around(self.encoder(x))
        z = code.rsample()
        told, back = code.log_prob(z).sum(-1), self._around(self.decoder(z)).log_prob(x).sum(-1)
        return z, back + told if self.bug == "sign" else back - told

    def inverse(self, z: torch.Tensor) -> torch.Tensor:
        """Data of a code."""
        drawn = self._around(self.decoder(z))
        return drawn.mean if self.bug == "mean" else drawn.sample()


def code(bug: str = "") -> nn.Module:
    """With weights of one seed."""
    torch.manual_seed(0)
    return Code(bug)


@pytest.mark.parametrize(("name", "law", "seed"), crossed(["augment", "code"], LAWS, range(3)))
def test_what_learns_its_spread_is_not_accused(name: str, law: str, seed: int) -> None:
    """Far out it may spread so little that most of the mass is hardly ever drawn."""
    verdict = check(f"{__name__}:{name}", law, Settings("quick", seed=seed))
    assert verdict.status in (Status.HOLDS, Status.INCONCLUSIVE), verdict.reason


@pytest.mark.parametrize(
    "target", ["augment?bug=sign", "augment?bug=twice", "augment?bug=order", "code?bug=sign", "code?bug=mean"]
)  # fmt: skip
def test_bugs_in_it_are(target: str) -> None:
    """By one of these laws."""
    seen = [check(f"{__name__}:{target}", law, QUICK).status for law in LAWS]
    assert Status.VIOLATED in seen
