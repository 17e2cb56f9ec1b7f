"""Densities of a target under an input, which every method takes first."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen

INPUTS, TARGETS = 3, 2


class Regression(nn.Module):
    """A normal distribution whose mean and scale are those of a network."""

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.net = nn.Linear(INPUTS, 2 * TARGETS)

    def forward(self, x: Any) -> tuple[Any, Any, Any]:
        """Mean, log-scale and scale."""
        mean, log_scale = self.net(x).chunk(2, -1)
        return mean, log_scale, log_scale.exp()

    def log_prob(self, x: Any, y: Any) -> Any:
        """Of targets under their inputs."""
        mean, log_scale, scale = self(x)
        each = 0.5 * ((y - mean) / scale) ** 2 + log_scale + 0.5 * math.log(2 * math.pi)
        return -each.sum(-1) * (1.1 if self.defect == "tempered" else 1.0)

    def sample(self, x: Any, n: int = 1) -> Any:
        """So many for every input: (n, inputs, targets)."""
        mean, _, scale = self(x)
        spread = scale**2 if self.defect == "squared" else scale
        return mean + spread * torch.randn(n, *mean.shape, dtype=mean.dtype, device=mean.device)


class Drawn(nn.Module):
    """The same, drawn once for an input, with gradients and without."""

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect, self.of_inputs = defect, Regression()

    def rsample(self, n: int, x: Any) -> Any:
        """One for each of n inputs, with gradients."""
        mean, _, scale = self.of_inputs(x)
        noise = torch.randn(n, TARGETS, dtype=mean.dtype, device=mean.device)
        if self.defect == "mirrored":
            noise = torch.cat([noise[: (n + 1) // 2], -noise[: n // 2]])
        if self.defect == "broken":
            noise = noise / (torch.rand(n, 1) > 0.1)
        if self.defect == "detached":
            scale = scale.detach()
        drawn = mean + scale * noise
        drawn = drawn.detach() if self.defect == "all-detached" else drawn
        return drawn[:1] if self.defect == "first-alone" else drawn

    def sample(self, n: int, x: Any) -> Any:
        """One for each of n inputs."""
        with torch.no_grad():
            return self.rsample(n, x)

    def log_prob(self, y: Any, x: Any) -> Any:
        """Of targets under their inputs."""
        return self.of_inputs.log_prob(x, y)


class Trained(Regression):
    """The same, by what trains it, and drawn once for an input."""

    log_prob: Any = None

    def nll(self, x: Any, y: Any) -> Any:
        """Minus the mean log-density."""
        return -Regression.log_prob(self, x, y).mean()

    def sample(self, x: Any, n: int = 1) -> Any:
        """One for every input."""
        return super().sample(x, 1)[0]


class Scalar(Regression):
    """Of a single number."""

    def log_prob(self, x: Any, y: Any) -> Any:
        """Of numbers under their inputs."""
        mean, log_scale, scale = (one[..., 0] for one in self(x))
        return -0.5 * ((y - mean) / scale) ** 2 - log_scale - 0.5 * math.log(2 * math.pi)

    def cdf(self, x: Any, y: Any) -> Any:
        """The share below."""
        mean, _, scale = (one[..., 0] for one in self(x))
        found = torch.special.ndtr((y - mean) / scale)
        return found.clamp(max=0.9) if self.defect == "clamped" else found

    def icdf(self, x: Any, q: Any) -> Any:
        """Quantiles."""
        mean, _, scale = (one[..., 0] for one in self(x))
        return mean + (0.99 if self.defect == "narrow" else 1.0) * scale * torch.special.ndtri(q)

    def sample(self, x: Any, n: int = 1) -> Any:
        """So many for every input: (n, inputs)."""
        return super().sample(x, n)[..., 0]


def regression(defect: str = "") -> Regression:
    """Of two numbers."""
    return Regression(defect)


def drawn(defect: str = "") -> Drawn:
    """Once for an input."""
    return Drawn(defect)


def trained(defect: str = "") -> Trained:
    """By its loss."""
    return Trained(defect)


def scalar(defect: str = "") -> Scalar:
    """Of one number."""
    return Scalar(defect)


SAMPLED = ("sampling/follows-density[ratios]", "sampling/follows-density")
SPECIMENS = (
    Specimen("regression", {"tempered": ("density/mass",), "squared": SAMPLED}),
    Specimen(
        "drawn",
        {
            "mirrored": ("random/rows-independent",),
            "broken": ("map/finite[samples, one-context]",),
            "detached": ("gradient/of-samples[density, one-context]",),
            "all-detached": ("gradient/of-samples[graph, one-context]",),
            "first-alone": ("shape/one-number-per-point[samples, one-context]",),
        },
    ),
    Specimen("trained?log_prob=nll", {"tempered": ("density/mass",), "squared": SAMPLED}),
    Specimen(
        "scalar",
        {
            "clamped": ("density/distribution-function[one-context]",),
            "narrow": ("sampling/quantiles[one-context]",),
        },
    ),
)
