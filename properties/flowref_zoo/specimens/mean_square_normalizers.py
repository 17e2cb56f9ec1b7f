"""Layers that divide each sample by its root mean square and take no mean away: of its features, or of
the positions of each channel.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class RMSNorm(nn.Module):
    """As language models have it."""

    def __init__(self, features: int = 6, defect: str = "") -> None:
        super().__init__()
        self.variance_epsilon, self.defect = 1e-6, defect
        self.weight = nn.Parameter(torch.linspace(0.5, 1.6, features))

    def forward(self, hidden: Any) -> Any:
        """Scale each sample."""
        square = hidden.pow(2).mean(-1, keepdim=True)
        if self.defect == "variance":
            square = hidden.var(-1, unbiased=False, keepdim=True)
        if self.defect == "sum":
            square = hidden.pow(2).sum(-1, keepdim=True)
        if self.defect == "no-root":
            return self.weight * hidden / (square + self.variance_epsilon)
        hidden = hidden * torch.rsqrt(square + self.variance_epsilon)
        if self.defect == "weight-left-out":
            return hidden
        return (self.weight**2 if self.defect == "weight-twice" else self.weight) * hidden


class FilterResponse(nn.Module):
    """Filter response normalization with its thresholds, and with an eps that is learned."""

    def __init__(self, channels: int = 3, defect: str = "") -> None:
        super().__init__()
        shape, self.defect = (1, channels, 1, 1), defect
        self.gamma = nn.Parameter(torch.ones(shape))
        self.beta = nn.Parameter(torch.zeros(shape))
        self.tau = nn.Parameter(torch.full(shape, -0.5))
        self.eps = nn.Parameter(torch.full(shape, 1e-4))

    def forward(self, x: Any) -> Any:
        """Scale each channel of each sample."""
        axes: tuple[int, ...] = (1, 2, 3) if self.defect == "over-channels" else (2, 3)
        if self.defect == "over-the-batch" and self.training:
            axes = (0, 2, 3)
        square = x.pow(2).mean(axes, keepdim=True)
        y = x * torch.rsqrt(square + self.eps.abs())
        y = (
            self.gamma * (y + self.beta)
            if self.defect == "bias-first"
            else self.gamma * y + self.beta
        )
        return torch.maximum(y, self.tau)


class Lengths(nn.Module):
    """Each sample divided by its length, times learned gains: no mean of squares, and rightly so."""

    def __init__(self, features: int = 6, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.g = nn.Parameter(torch.full((features,), 3.0))

    def forward(self, x: Any) -> Any:
        """Scale each sample."""
        loud = 1.1 if self.defect == "scaled-in-train" and self.training else 1.0
        return loud * nn.functional.normalize(x, dim=-1) * self.g


def roots(defect: str = "") -> nn.Module:
    """Root mean square normalization."""
    return RMSNorm(defect=defect)


def responses(defect: str = "") -> nn.Module:
    """Filter response normalization."""
    return FilterResponse(defect=defect)


def lengths(defect: str = "") -> nn.Module:
    """Samples of one length."""
    return Lengths(defect=defect)


SPECIMENS = (
    Specimen(
        "roots",
        {
            "variance": ("sample-norm/formula",),
            "no-root": ("sample-norm/formula",),
            "sum": ("sample-norm/formula[parameters]",),
            "weight-left-out": ("sample-norm/formula[parameters]",),
            "weight-twice": ("sample-norm/formula[parameters]",),
        },
    ),
    Specimen(
        "responses",
        {
            "over-channels": ("sample-norm/formula",),
            "over-the-batch": ("same/train-mode[per-sample]",),
            "bias-first": ("sample-norm/formula[parameters]",),
        },
    ),
    Specimen("lengths", {"scaled-in-train": ("same/train-mode[per-sample]",)}),
)
