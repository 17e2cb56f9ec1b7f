"""A log-likelihood in four dimensions that is trained and never sampled: its layers have no inverse."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class Likelihood(nn.Module):
    """x -> x + a sinh-like curve, then a full matrix, under a standard normal."""

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.raw = nn.Parameter(torch.tensor([0.1, -0.4, 0.3, 0.0]))
        matrix = 0.35 * torch.randn(4, 4, generator=torch.Generator().manual_seed(3))
        self.matrix = nn.Parameter(matrix.to(torch.get_default_dtype()) + 0.8 * torch.eye(4))
        self.shift = nn.Parameter(torch.tensor([0.5, 0.0, -1.0, 0.2]))

    def log_prob(self, x: Any) -> Any:
        """The log-density of each point."""
        bend = nn.functional.softplus(self.raw)
        y = x + bend * torch.asinh(x)
        slopes = torch.log1p(bend / torch.sqrt(1 + x**2)).sum(-1)
        z = y @ self.matrix.T + self.shift
        size = 1 if self.defect == "normalizer-of-one-dimension" else 4
        log_det = torch.linalg.slogdet(self.matrix)[1]
        if self.defect == "log-det-of-the-inverse":
            log_det = -log_det
        if self.defect == "slopes-squared":
            slopes = 2 * slopes
        return -0.5 * (z**2).sum(-1) - 0.5 * size * math.log(2 * math.pi) + slopes + log_det


def never_sampled(defect: str = "") -> nn.Module:
    """A log-likelihood of four features."""
    return Likelihood(defect)


SPECIMENS = (
    Specimen(
        "never_sampled",
        {
            "normalizer-of-one-dimension": ("density/mass[importance]",),
            "log-det-of-the-inverse": ("density/mass[importance]",),
            "slopes-squared": ("density/mass[importance]",),
        },
    ),
)
