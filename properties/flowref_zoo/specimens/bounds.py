"""Variational models, whose log_prob is a lower bound: of one random sample, or in closed form."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.distributions import Normal

from flowref_zoo.specimens.specimen import Specimen


class Variational(nn.Module):
    r"""$\log p(x | z) + \log p(z) - \log q(z | x)$ with one $z \sim q$: a linear decoder with noise
    of deviation 1. Source: Kingma and Welling (arXiv:1312.6114), section 2.3.
    """

    lower_bound = True

    def __init__(self, dim: int = 2, latent: int = 1, defect: str = "") -> None:
        super().__init__()
        self.dim, self.latent, self.defect = dim, latent, defect
        self.encoder, self.decoder = nn.Linear(dim, 2 * latent), nn.Linear(latent, dim)
        with torch.no_grad():  # near the posterior, as after training
            weight = self.decoder.weight
            precision = (
                torch.eye(latent, dtype=weight.dtype, device=weight.device) + weight.T @ weight
            )
            self.encoder.weight[:latent] = 0.9 * torch.linalg.solve(precision, weight.T)
            self.encoder.weight[latent:] *= 0.1
            self.encoder.bias[:latent] = -self.encoder.weight[:latent] @ self.decoder.bias

    def posterior(self, x: Any) -> tuple[Any, Any]:
        """Mean and log-deviation of the latent."""
        mean, log_scale = self.encoder(x).chunk(2, -1)
        return mean, 0.2 * torch.tanh(log_scale)

    def log_prob(self, x: Any) -> Any:
        """The bound, at one random latent."""
        mean, log_scale = self.posterior(x)
        noise = torch.randn_like(mean)
        z = mean + log_scale.exp() * noise
        prior = Normal(0.0, 1.0).log_prob(z).sum(-1)
        likelihood = Normal(self.decoder(z), 1.0).log_prob(x).sum(-1)
        posterior = Normal(0.0, 1.0).log_prob(noise).sum(-1) - log_scale.sum(-1)
        if self.defect == "deviation-missing":
            posterior = Normal(0.0, 1.0).log_prob(noise).sum(-1) - 1
        if self.defect == "prior-missing":
            prior = 0.0
        return likelihood + prior - posterior

    @torch.no_grad()
    def sample(self, n: int) -> Any:
        """Ancestral samples."""
        device = next(self.parameters()).device
        z = torch.randn(n, self.latent, device=device)
        return self.decoder(z) + torch.randn(n, self.dim, device=device)


def variational(defect: str = "") -> nn.Module:
    """A variational model of two numbers with one latent."""
    return Variational(defect=defect)


class Expected(Variational):
    """The same bound with its expectation in closed form: nothing is random."""

    def log_prob(self, x: Any) -> Any:
        """The bound."""
        mean, log_scale = self.posterior(x)
        variance = (2 * log_scale).exp()
        rest = x - self.decoder(mean)
        spread = (variance * (self.decoder.weight**2).sum(0)).sum(-1)
        constant = 0.0 if self.defect == "constant-missing" else self.dim * math.log(2 * math.pi)
        divergence = 0.5 * (variance + mean**2 - 1 - 2 * log_scale).sum(-1)
        if self.defect == "divergence-sign":
            divergence = -divergence
        return -0.5 * ((rest**2).sum(-1) + spread + constant) - divergence


def expected(defect: str = "") -> nn.Module:
    """A deterministic bound of the same model."""
    return Expected(defect=defect)


class Sampled(Variational):
    r"""The usual bound: $\log p(x | z)$ at one $z \sim q$, and the divergence of q from the prior in closed
    form. e to it is no unbiased estimate of anything.
    """

    def log_prob(self, x: Any) -> Any:
        """The bound."""
        mean, log_scale = self.posterior(x)
        z = mean + log_scale.exp() * torch.randn_like(mean)
        z = z.detach() if self.defect == "sample-detached" else z
        divergence = 0.5 * ((2 * log_scale).exp() + mean**2 - 1 - 2 * log_scale).sum(-1)
        if self.defect == "divergence-missing":
            divergence = 0.0
        constant = 0.0 if self.defect == "constant-missing" else self.dim * math.log(2 * math.pi)
        return -0.5 * (((x - self.decoder(z)) ** 2).sum(-1) + constant) - divergence


def sampled(defect: str = "") -> nn.Module:
    """A random bound of the same model with a divergence in closed form."""
    return Sampled(defect=defect)


class Averaged(Variational):
    """The first bound, averaged over several latents: of its exponential only the mean of its logarithm
    is bounded.
    """

    def log_prob(self, x: Any) -> Any:
        """The bound."""
        bound = torch.stack([super(Averaged, self).log_prob(x) for _ in range(4)])
        # The constant of the likelihood, as where squares stand for it.
        missing = (
            0.5 * self.dim * math.log(2 * math.pi) if self.defect == "constant-missing" else 0.0
        )
        return bound.mean(0) + missing


def averaged(defect: str = "") -> nn.Module:
    """A bound that is a mean of several."""
    return Averaged(defect=defect)


SPECIMENS = (
    Specimen(
        "variational",
        {
            "deviation-missing": ("density/mass[bound]",),
            "prior-missing": ("density/mass[bound]",),
        },
    ),
    Specimen(
        "expected",
        {
            "constant-missing": ("density/mass[bound]",),
            "divergence-sign": ("density/mass[bound]",),
        },
    ),
    Specimen(
        "sampled",
        {
            "constant-missing": ("density/mass[bound]",),
            "divergence-missing": ("sampling/follows-bound",),
            "sample-detached": ("gradient/parameters[bound]",),
        },
    ),
    Specimen("averaged", {"constant-missing": ("density/mass[bound]",)}),
)
