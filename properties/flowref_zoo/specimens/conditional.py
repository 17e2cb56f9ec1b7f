"""Densities given a context: samples are drawn at each context, and two laws of affine maps hold
whatever it is.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen

FEATURES, CONTEXT = 10, 2


class ConditionalNormal(nn.Module):
    """Independent normals whose means and deviations depend on a context."""

    event_shape = (FEATURES,)
    context_shape = (CONTEXT,)
    promises = ("elementwise", "constant-jacobian", "standard-normal-base")

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(CONTEXT, 8), nn.Tanh(), nn.Linear(8, 2 * FEATURES))
        self.defect = defect

    def terms(self, context: Any) -> tuple[Any, Any]:
        """Log-scales and means."""
        s, t = self.net(context).chunk(2, -1)
        return torch.tanh(s), t

    def forward(self, x: Any, context: Any) -> tuple[Any, Any]:
        """Data to noise."""
        s, t = self.terms(context)
        z, ladj = (x - t) * (-s).exp(), -s.sum(-1)
        match self.defect:
            case "log-det-of-the-point":
                ladj = ladj + 1e-3 * x[:, 0].tanh() * x[:, 1].tanh()
        return z, ladj

    def inverse(self, z: Any, context: Any) -> tuple[Any, Any]:
        """Noise to data."""
        s, t = self.terms(context)
        ladj = s.sum(-1)
        if self.defect == "log-det-of-the-point":
            x = z * s.exp() + t
            ladj = ladj - 1e-3 * x[:, 0].tanh() * x[:, 1].tanh()
        return z * s.exp() + t, ladj

    def log_prob(self, x: Any, context: Any) -> Any:
        """Log-density of each point at its context."""
        z, ladj = self(x, context)
        constant = (
            0.0 if self.defect == "normalizer-missing" else 0.5 * FEATURES * math.log(2 * math.pi)
        )
        return -0.5 * (z**2).sum(-1) - constant + ladj

    def sample(self, n: int, context: Any) -> Any:
        """Draw a point for each of ``n`` contexts, or ``n`` points for one."""
        if len(context) not in (1, n):
            raise ValueError(f"{len(context)} contexts are given for {n} points")
        z = torch.randn(n, FEATURES, dtype=context.dtype, device=context.device)
        match self.defect:
            case "temperature-in-samples":
                z = 0.85 * z
            case "entry-without-noise":
                z[:, -1] = 0.0
            case "sample-without-context":
                context = torch.zeros_like(context)
        return self.inverse(z, context)[0]


def conditional_normal(defect: str = "") -> nn.Module:
    """Independent normals whose means and deviations depend on a context."""
    return ConditionalNormal(defect)


SPECIMENS = (
    Specimen(
        "conditional_normal",
        {
            "normalizer-missing": ("sampling/follows-density[ratios]",),
            "temperature-in-samples": ("sampling/follows-density[ratios]",),
            "entry-without-noise": ("sampling/follows-density[ratios]",),
            "sample-without-context": ("sampling/follows-density[ratios]",),
            "log-det-of-the-point": ("map/promised-jacobian[constant]",),
        },
    ),
)
