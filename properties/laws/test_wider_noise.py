"""Random bounds of which few draws decide are judged by draws of wider noise, which weigh less."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Normal

from flowref import check, loading, registry
from flowref.checking import Settings
from flowref.laws.common.statistics import Guard
from flowref.laws.density.lower_bound import lower_bound_draws, mean_of
from flowref.model import Array, Status

QUICK = Settings("quick")
LAWS = ("density/mass[bound]", "sampling/follows-bound")
VARIATIONAL = "flowref_zoo.specimens.bounds:variational"
TWO = math.log(2 * math.pi)


class Dequantized(nn.Module):
    """Levels 0 to 3 of a logistic normal density, dequantized by noise that is much narrower."""

    event_shape, domain, lower_bound = (2,), (0, 4), True

    def __init__(self, bug: str = "") -> None:
        super().__init__()
        self.bug = bug
        self.scale, self.at = nn.Parameter(torch.tensor([0.3, -0.2])), nn.Parameter(torch.zeros(2))

    def log_prob(self, x: Any) -> Any:
        """One sample of a bound."""
        e = torch.randn_like(x + self.at)
        v = 0.2 * (x - 1.5) + 0.8 * e
        u, steep = torch.sigmoid(v), nn.functional.logsigmoid(v) + nn.functional.logsigmoid(-v)
        log_q = (-0.5 * e**2 - 0.5 * TWO - math.log(0.8) - steep).sum(1)
        if self.bug == "noise":
            log_q = log_q + 2 * math.log(0.8)
        y = (x + u) / 4
        z = torch.log(y) - torch.log1p(-y)
        log_p = -0.5 * ((z - self.at) / self.scale.exp()) ** 2 - self.scale - 0.5 * TWO
        log_p = log_p - torch.log(y) - (0 if self.bug == "logit" else 1) * torch.log1p(-y)
        return log_p.sum(1) - 2 * math.log(4) - log_q

    @torch.no_grad()
    def sample(self, count: int) -> Any:
        """Levels."""
        z = self.at + self.scale.exp() * torch.randn(count, 2, dtype=self.at.dtype)
        return (4 * torch.sigmoid(z)).floor()


class Chain(nn.Module):
    """Four noisy steps from data to a normal distribution, beside steps back that a small net makes."""

    event_shape, lower_bound = (2,), True

    def __init__(self, bug: str = "") -> None:
        super().__init__()
        self.bug = bug
        self.net = nn.Sequential(nn.Linear(3, 16), nn.SiLU(), nn.Linear(16, 2))

    def back(self, x: Any, step: int) -> Any:
        """The mean of a step back."""
        told = self.net(torch.cat([x, torch.full_like(x[:, :1], step / 4)], -1))
        return (x - 0.4 * told) / math.sqrt(0.7)

    def log_prob(self, x: Any) -> Any:
        """One sample of a bound."""
        total: Any = 0.0
        for step in range(4):
            y = math.sqrt(0.7) * x + math.sqrt(0.3) * torch.randn_like(x)
            mean = x if self.bug == "mean" else math.sqrt(0.7) * x
            there = Normal(mean, math.sqrt(0.3)).log_prob(y).sum(1)
            back = Normal(self.back(y, step), math.sqrt(0.3)).log_prob(x).sum(1)
            total = total + back + (there if self.bug == "sign" else -there)
            x = y
        return total + Normal(0.0, 1.0).log_prob(x).sum(1)

    @torch.no_grad()
    def sample(self, count: int) -> Any:
        """Steps back from noise."""
        x: Any = torch.randn(count, 2).to(next(self.parameters()))
        for step in reversed(range(4)):
            x = self.back(x, step) + math.sqrt(0.3) * torch.randn_like(x)
        return x


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("model", [Dequantized, Chain])
def test_a_bound_with_uneven_weights_is_judged(model: Any, law: str) -> None:
    """It is one, and is not accused."""
    torch.manual_seed(0)
    assert check(model(), law, QUICK).status is Status.HOLDS


@pytest.mark.parametrize(
    ("model", "bug", "law"),
    [
        (Dequantized, "logit", "sampling/follows-bound"),
        (Dequantized, "noise", "sampling/follows-bound"),
        (Chain, "mean", "sampling/follows-bound"),
        (Chain, "sign", "density/mass[bound]"),
    ],
)
def test_its_bugs_are_seen(model: Any, bug: str, law: str) -> None:
    """Half of the derivative of a logit, a wrong constant of noise, a wrong mean, and a wrong sign."""
    torch.manual_seed(0)
    assert check(model(bug), law, QUICK).status is Status.VIOLATED


@pytest.mark.parametrize("factor", [0.75, 1.3, 2.0])
def test_wider_noise_has_the_same_mean(factor: float) -> None:
    """e to the bound has the density as its mean, however wide its noise is drawn."""
    flow: Any = loading.load(registry.parse_target(VARIATIONAL))
    x = np.repeat(np.array([[0.4, -0.7]]), 20_000, 0)
    known, told = (np.exp(np.asarray(lower_bound_draws(flow, x, 1, one))) for one in (1.0, factor))
    error = math.hypot(known.std(), told.std()) / math.sqrt(len(x))
    assert abs(known.mean() - told.mean()) < 5 * error
    assert error < 0.02 * known.mean()


def test_what_narrower_noise_misses_is_not_missing() -> None:
    """Less than what should be there counts by narrower noise only where wider noise finds no more."""
    rng = np.random.default_rng(0)
    even = rng.uniform(0.9, 1.1, 10_000)
    few = np.where(rng.random(10_000) < 1e-3, 500.0, 0.2)

    def weigh(factor: float) -> Array:
        return even if factor < 1 else few

    assert mean_of(weigh, (1.0, 0.75), 5.0, 1e9, Guard(0.02, 200.0)) is None


@pytest.mark.parametrize(
    ("specimen", "words"),
    [("variational", "would have been seen"), ("expected", "what makes it lower is not seen")],
)
def test_what_a_bound_hides_is_said(specimen: str, words: str) -> None:
    """Of one sample both sides are judged; of a mean only what is too much, and how much of that is hidden."""
    verdict = check(f"flowref_zoo.specimens.bounds:{specimen}", LAWS[0], QUICK)
    assert verdict.status is Status.HOLDS
    assert words in verdict.reason
