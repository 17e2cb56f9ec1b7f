"""Variational models that offer a lower bound of their log-density beside the log-density itself."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.distributions import MultivariateNormal

from flowref_zoo.specimens.specimen import Specimen


class Explained(nn.Module):
    """A linear decoder with normal noise, whose evidence has a closed form, and an encoder that is the posterior."""

    features = 3

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.weight = nn.Parameter(torch.tensor([[0.9, 0.0], [0.0, 0.7], [0.6, 0.0]]))
        self.log_scale = nn.Parameter(torch.tensor(-0.4))

    def posterior(self, x: Any) -> tuple[Any, Any]:
        """Mean and deviation of the latents."""
        noise = torch.exp(2 * self.log_scale)
        variance = 1 / (1 + self.weight.square().sum(0) / noise)
        return variance * (x @ self.weight) / noise, variance.sqrt()

    def elbo(self, x: Any) -> Any:
        """The bound of one draw of the latents, with a divergence in closed form."""
        mean, deviation = self.posterior(x)
        z = mean + deviation * torch.randn_like(mean)
        off = (x - z @ self.weight.T) / self.log_scale.exp()
        constant = 0.0 if self.defect == "constant-missing" else math.log(2 * math.pi)
        likelihood = (-0.5 * off.square() - self.log_scale - 0.5 * constant).sum(-1)
        divergence = 0.5 * (mean**2 + deviation**2 - 1 - 2 * deviation.log()).sum(-1)
        sign = -1 if self.defect == "divergence-sign" else 1
        return likelihood - sign * divergence

    def log_prob(self, x: Any) -> Any:
        """The evidence."""
        noise = torch.exp(2 * self.log_scale) * torch.eye(self.features).to(x)
        covariance = self.weight @ self.weight.T + noise
        return MultivariateNormal(x.new_zeros(self.features), covariance).log_prob(x)

    def sample(self, n: int) -> Any:
        """Draws ``(n, 3)``."""
        z = torch.randn(n, 2).to(self.weight)
        return z @ self.weight.T + self.log_scale.exp() * torch.randn(n, 3).to(self.weight)


def explained(defect: str = "") -> nn.Module:
    """A model with its evidence and a bound of it."""
    return Explained(defect)


SPECIMENS = (
    Specimen(
        "explained",
        dict.fromkeys(("divergence-sign", "constant-missing"), ("density/evidence-bound",)),
    ),
)
