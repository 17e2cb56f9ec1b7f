"""Layers that normalize by averages of their own: corrected for their start, renormalized, or with
gains that a context tells.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class Corrected(nn.Module):
    """Normalizes by moving averages that are corrected for their start, as Adam does."""

    m: Any
    v: Any
    steps: Any

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect, self.decay = defect, 0.9
        self.register_buffer("m", torch.zeros(3))
        self.register_buffer("v", torch.zeros(3))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def moments(self) -> tuple[Any, Any]:
        """Mean and variance of the past."""
        if int(self.steps) == 0:
            return torch.zeros_like(self.m), torch.ones_like(self.v)
        share = 1 - self.decay ** int(self.steps)
        if self.defect == "variance-not-corrected":
            return self.m / share, self.v + 1e-4
        return self.m / share, self.v / share + 1e-4

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        if self.training:
            with torch.no_grad():
                if self.defect == "decays-twice":
                    self.m.mul_(self.decay)
                self.m.mul_(self.decay).add_((1 - self.decay) * x.mean(0))
                self.v.mul_(self.decay).add_((1 - self.decay) * x.var(0, unbiased=False))
                self.steps += 1
        mean, var = self.moments()
        return (x - mean) / var.sqrt(), -0.5 * var.log().sum().expand(len(x))

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        mean, var = self.moments()
        return z * var.sqrt() + mean, 0.5 * var.log().sum().expand(len(z))


class Renormalized(nn.Module):
    """Batch renormalization: train mode maps as the running averages would, within limits."""

    running_mean: Any
    running_std: Any
    steps: Any

    def __init__(self, defect: str = "", warmup: int = 0) -> None:
        super().__init__()
        self.defect, self.warmup = defect, warmup
        self.register_buffer("running_mean", torch.zeros(3))
        self.register_buffer("running_std", torch.ones(3))
        self.register_buffer("steps", torch.tensor(0))
        self.weight = nn.Parameter(torch.tensor([0.7, 1.3, 0.9]))
        self.bias = nn.Parameter(torch.tensor([0.2, -0.4, 0.1]))

    def forward(self, x: Any) -> Any:
        """One batch to the next layer."""
        if not self.training:
            y = (x - self.running_mean) / self.running_std
            return self.weight * y + self.bias
        mean, std = x.mean(0), (x.var(0, unbiased=False) + 1e-3).sqrt()
        if self.defect == "averages-first":
            self.average(mean, std)
        lowest = {"lower-limit-missing": -3.0, "limits-apart": 0.5}.get(self.defect, 1 / 3)
        corrected = std if self.defect == "correction-not-held" else std.detach()
        r = (corrected / self.running_std).clamp(lowest, 3)
        beside = std.detach() if self.defect == "shift-beside-the-batch" else self.running_std
        d = ((mean.detach() - self.running_mean) / beside).clamp(-5, 5)
        if self.steps < self.warmup:
            r, d = torch.ones_like(r), torch.zeros_like(d)
        self.steps = self.steps + 1
        y = (x - mean) / std * r + d
        if self.defect != "averages-first":
            self.average(mean, std**2 if self.defect == "averages-variances" else std)
        return self.weight * y + self.bias

    @torch.no_grad()
    def average(self, mean: Any, std: Any) -> None:
        """Of the batches that were seen."""
        self.running_mean = self.running_mean + 0.05 * (mean - self.running_mean)
        share = 0.95 if self.defect == "spread-moves-otherwise" else 0.05
        self.running_std = self.running_std + share * (std - self.running_std)


class Told(nn.Module):
    """Batch normalization whose gain and shift a context tells, by keyword alone."""

    running_mean: Any
    running_var: Any

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.film = nn.Linear(2, 6)
        self.register_buffer("running_mean", torch.zeros(3))
        self.register_buffer("running_var", torch.ones(3))

    def forward(self, x: Any, *, label: Any) -> tuple[Any, Any]:
        """Data to latents."""
        mean, var = self.running_mean, self.running_var
        if self.training:
            mean, var = x.mean(0), x.var(0, unbiased=False)
            with torch.no_grad():
                if self.defect != "mean-never-learned":
                    self.running_mean.lerp_(mean, 0.1)
                self.running_var.lerp_(var, 0.1)
        log_gain, shift = self.film(label).chunk(2, -1)
        ladj = (log_gain - 0.5 * (var + 1e-5).log()).sum(-1)
        return log_gain.exp() * (x - mean) / (var + 1e-5).sqrt() + shift, ladj

    def inverse(self, z: Any, *, label: Any) -> tuple[Any, Any]:
        """Latents to data, in eval mode."""
        if self.defect == "label-of-the-first":
            label = label[:1].expand_as(label)
        log_gain, shift = self.film(label).chunk(2, -1)
        std = (self.running_var + 1e-5).sqrt()
        x = (z - shift) * torch.exp(-log_gain) * std + self.running_mean
        return x, (std.log() - log_gain).sum(-1)


def corrected(defect: str = "") -> nn.Module:
    """Averages corrected for their start."""
    return Corrected(defect)


def renormalized(defect: str = "") -> nn.Module:
    """Batch renormalization."""
    return Renormalized(defect)


def scheduled(defect: str = "") -> nn.Module:
    """Batch renormalization that begins as batch normalization."""
    return Renormalized(defect, 5)


def told(defect: str = "") -> nn.Module:
    """Conditional batch normalization."""
    torch.manual_seed(11)
    return Told(defect)


SPECIMENS = (
    Specimen(
        "corrected",
        {
            "decays-twice": ("batch-norm/modes-agree[many-batches]",),
            "variance-not-corrected": ("batch-norm/statistics[running-average]",),
        },
    ),
    Specimen(
        "renormalized",
        {
            "averages-variances": ("batch-norm/modes-agree[many-batches]",),
            "averages-first": ("batch-norm/train-map[renormalization]",),
            "lower-limit-missing": ("batch-norm/train-map[renormalization]",),
            "limits-apart": ("batch-norm/train-map[renormalization]",),
            "correction-not-held": ("batch-norm/train-map[renormalization]",),
            "shift-beside-the-batch": ("batch-norm/train-map[renormalization]",),
            "spread-moves-otherwise": ("batch-norm/statistics[running-average]",),
        },
    ),
    Specimen("scheduled", {"spread-moves-otherwise": ("batch-norm/statistics[running-average]",)}),
    Specimen(
        "told",
        {
            "mean-never-learned": ("batch-norm/modes-agree[many-batches]",),
            "label-of-the-first": ("map/inverse", "same/rows"),
        },
    ),
)
