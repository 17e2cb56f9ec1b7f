"""Densities without a map, and the bugs between what is sampled and what is reported: mixtures,
conditional normals, images, positive data.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from flowref_zoo.specimens.specimen import Specimen

LOG_2_PI = math.log(2 * math.pi)


class Mixture(nn.Module):
    r"""$p(x) = \sum_k \pi_k \, N(x; \mu_k, \sigma_k^2)$ in three dimensions."""

    event_shape = (3,)

    def __init__(self, components: int = 4, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.logits = nn.Parameter(torch.linspace(-0.5, 1.0, components))
        self.means = nn.Parameter(torch.randn(components, 3))
        self.log_scales = nn.Parameter(torch.linspace(-0.9, 0.2, 3 * components).view(-1, 3))

    def log_prob(self, x: Any) -> Any:
        """Log-density of each point."""
        scales = self.log_scales.exp()
        z = (x[:, None] - self.means) / (
            scales**2 if self.defect == "variance-for-scale" else scales
        )
        size = 1 if self.defect == "normalizer-of-one-dimension" else 3
        each = -0.5 * (z**2).sum(-1) - self.log_scales.sum(-1) - 0.5 * size * LOG_2_PI
        if self.defect == "log-scales-averaged":
            each = each + self.log_scales.sum(-1) - self.log_scales.mean(-1)
        weights = F.log_softmax(self.logits, 0)
        if self.defect == "weights-not-normalized":
            weights = self.logits
        if self.defect == "softmax-of-rows":
            return torch.logsumexp(F.log_softmax(self.logits + each, 1) + each, 1)
        if self.defect == "mean-of-components":
            return torch.logsumexp(each, 1) - math.log(len(self.logits))
        return torch.logsumexp(weights + each, 1)

    def sample(self, n: int) -> Any:
        """Draw ``n`` points."""
        count = 1 if self.defect == "one-component-for-all" else n
        weights = F.softmax(self.logits, 0)
        if self.defect == "weights-forgotten-in-samples":
            weights = torch.ones_like(weights)
        k = torch.multinomial(weights, count, replacement=True)
        noise = torch.randn(n, 3, dtype=self.means.dtype, device=self.means.device)
        scales = self.log_scales[k].exp()
        if self.defect == "scales-forgotten-in-samples":
            scales = torch.ones_like(scales)
        if self.defect == "exponent-halved-in-samples":
            scales = scales.sqrt()
        return self.means[k] + scales * noise


class ConditionalNormal(nn.Module):
    r"""$x \mid c \sim N(\mu(c), \sigma(c)^2)$ with a small network."""

    event_shape, context_shape = (2,), (3,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 4))

    def _parts(self, context: Any) -> Any:
        mean, raw = self.net(context).chunk(2, -1)
        return 2 * mean, raw.tanh()

    def log_prob(self, x: Any, context: Any) -> Any:
        """Log-density of each point given its context."""
        mean, log_scale = self._parts(context)
        z = (x - mean) * (-log_scale).exp()
        if self.defect == "log-scale-counted-twice":
            log_scale = 2 * log_scale
        return (-0.5 * z**2 - log_scale - 0.5 * LOG_2_PI).sum(-1)

    def sample(self, n: int, context: Any) -> Any:
        """One point for each context."""
        if self.defect == "context-ignored-in-samples":
            context = torch.zeros_like(context)
        if self.defect == "contexts-shuffled":
            context = context.flip(0)
        mean, log_scale = self._parts(context)
        rows = 1 if self.defect == "noise-shared" else n
        return mean + log_scale.exp() * torch.randn(rows, 2, dtype=mean.dtype, device=mean.device)


class Texture:
    """A Gaussian random field on four by four pixels, by its eigenvectors; no module."""

    event_shape = (1, 4, 4)

    def __init__(self, defect: str = "") -> None:
        self.defect = defect
        places = torch.arange(4.0, dtype=torch.float64)
        grid = torch.cartesian_prod(places, 2 * places)
        distance = torch.cdist(grid, grid, compute_mode="donot_use_mm_for_euclid_dist")
        covariance = torch.exp(-0.5 * distance) + 0.1 * torch.eye(16, dtype=torch.float64)
        self.values, self.vectors = torch.linalg.eigh(covariance)

    def log_prob(self, x: Any) -> Any:
        """Log-density of each image."""
        z = x.reshape(len(x), 16) @ self.vectors.to(x.dtype)
        values = self.values.to(x.dtype)
        quadratic = (z**2 / values).sum(-1)
        if self.defect == "quadratic-form-averaged":
            quadratic = quadratic / 4
        return -0.5 * (quadratic + values.log().sum() + 16 * LOG_2_PI)

    def sample(self, n: int) -> Any:
        """Draw ``n`` images."""
        noise = torch.randn(n, 16, dtype=torch.float64)
        scaled = noise * (self.values if self.defect == "values-for-roots" else self.values.sqrt())
        x = (scaled @ self.vectors.T).reshape(n, 1, 4, 4)
        if self.defect == "image-transposed":
            x = x.mT
        return 0.9 * x if self.defect == "temperature" else x


class Positive(nn.Module):
    r"""$x = \log(1 + e^z)$ with $z$ normal, entry by entry."""

    event_shape, domain = (2,), "positive"

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.loc = nn.Parameter(torch.tensor([0.5, 1.0]))

    def log_prob(self, x: Any) -> Any:
        """Log-density of each point."""
        z = x + torch.log(-torch.expm1(-x))
        slope = torch.log(-torch.expm1(-x))
        if self.defect == "log1p-for-expm1":
            slope = torch.log1p(torch.exp(-x))
        if self.defect == "slope-added":
            slope = -slope
        each = -0.5 * (z - self.loc) ** 2 - 0.5 * LOG_2_PI - slope
        log_p = each.sum(-1)
        return log_p.clamp(min=-8.0) if self.defect == "loss-clamped" else log_p

    def sample(self, n: int) -> Any:
        """Draw ``n`` points."""
        loc = 0.0 if self.defect == "location-forgotten" else self.loc
        return F.softplus(loc + torch.randn(n, 2, dtype=self.loc.dtype, device=self.loc.device))


def mixture(defect: str = "") -> nn.Module:
    """A mixture of normals."""
    return Mixture(defect=defect)


def conditional_normal(defect: str = "") -> nn.Module:
    """A normal whose parameters depend on a context."""
    return ConditionalNormal(defect)


def texture(defect: str = "") -> Texture:
    """A Gaussian random field."""
    return Texture(defect)


def positive(defect: str = "") -> nn.Module:
    """Two positive numbers."""
    return Positive(defect)


BALANCE, OVERLAP = "sampling/follows-density[balance]", "sampling/follows-density"
SPECIMENS = (
    Specimen(
        "mixture",
        {
            "variance-for-scale": (BALANCE, OVERLAP),
            "normalizer-of-one-dimension": (OVERLAP,),
            "log-scales-averaged": (BALANCE, OVERLAP),
            "weights-not-normalized": (OVERLAP,),
            "softmax-of-rows": (BALANCE, OVERLAP),
            "mean-of-components": (BALANCE, OVERLAP),
            "one-component-for-all": (BALANCE, OVERLAP),
            "weights-forgotten-in-samples": (BALANCE, OVERLAP),
            "scales-forgotten-in-samples": (BALANCE, OVERLAP),
            "exponent-halved-in-samples": (BALANCE, OVERLAP),
        },
    ),
    Specimen(
        "conditional_normal",
        {
            "log-scale-counted-twice": (OVERLAP, "density/mass"),
            "context-ignored-in-samples": (BALANCE, OVERLAP),
            "contexts-shuffled": (BALANCE, OVERLAP),
            "noise-shared": (BALANCE, OVERLAP),
        },
    ),
    Specimen(
        "texture",
        {
            "quadratic-form-averaged": (BALANCE,),
            "values-for-roots": (BALANCE,),
            "image-transposed": (BALANCE,),
            "temperature": (BALANCE,),
        },
    ),
    Specimen(
        "positive",
        {
            "log1p-for-expm1": (BALANCE, OVERLAP),
            "slope-added": (BALANCE, OVERLAP),
            "loss-clamped": ("density/mass[tails]",),
            "location-forgotten": (BALANCE, OVERLAP),
        },
    ),
)
