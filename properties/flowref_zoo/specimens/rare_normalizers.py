"""Normalizers of batches that are seen less often: by absolute deviations, by whitening, and of instances
with statistics that are kept.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class AbsoluteBatchNorm(nn.Module):
    """Batches are divided by their mean absolute deviation, times what makes a normal one."""

    center: Any
    spread: Any

    def __init__(self, features: int = 4, momentum: float = 0.1, defect: str = "") -> None:
        super().__init__()
        self.momentum, self.defect = momentum, defect
        self.gain = nn.Parameter(torch.linspace(0.6, 1.7, features))
        self.shift = nn.Parameter(torch.linspace(-0.5, 0.4, features))
        self.register_buffer("center", torch.zeros(features))
        self.register_buffer("spread", torch.ones(features))

    def forward(self, x: Any) -> Any:
        """One batch to the next layer."""
        center, spread = self.center, self.spread
        if self.training:
            center = x.mean(0)
            spread = math.sqrt(math.pi / 2) * (x - center).abs().mean(0)
            with torch.no_grad():
                less = math.sqrt(math.pi / 2) if self.defect == "factor-in-train-alone" else 1.0
                self.center.lerp_(center, self.momentum)
                self.spread.lerp_(spread / less, self.momentum)
        if self.defect == "parameters-swapped-in-eval" and not self.training:
            return self.shift * (x - center) / (spread + 1e-5) + self.gain
        return self.gain * (x - center) / (spread + 1e-5) + self.shift


class Whitening(nn.Module):
    """A batch is whitened by the Cholesky factor of its covariance, which is averaged for eval mode."""

    mean: Any
    cov: Any

    def __init__(self, features: int = 3, momentum: float = 0.1, defect: str = "") -> None:
        super().__init__()
        self.momentum, self.defect = momentum, defect
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("cov", torch.eye(features))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        mean, cov = self.mean, self.cov
        if self.training:
            mean = x.mean(0)
            cov = (x - mean).T @ (x - mean) / len(x)
            with torch.no_grad():
                raw = self.defect == "covariance-about-zero"
                self.mean.lerp_(mean, self.momentum)
                self.cov.lerp_(x.T @ x / len(x) if raw else cov, self.momentum)
        root = torch.linalg.cholesky(
            cov + 1e-3 * torch.eye(len(cov), dtype=cov.dtype, device=cov.device)
        )
        z = torch.linalg.solve_triangular(root, (x - mean).T, upper=False).T
        sign = 1.0 if self.defect == "sign-in-train" and self.training else -1.0
        return z, (sign * root.diagonal().log().sum()).expand(len(x))

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data, by the averages."""
        root = torch.linalg.cholesky(
            self.cov + 1e-3 * torch.eye(len(self.cov), dtype=z.dtype, device=z.device)
        )
        return z @ root.T + self.mean, root.diagonal().log().sum().expand(len(z))


class TrackedInstances(nn.Module):
    """Instance normalization that keeps averages, by which eval mode normalizes."""

    running_mean: Any
    running_var: Any

    def __init__(self, channels: int = 3, momentum: float = 0.1, defect: str = "") -> None:
        super().__init__()
        self.momentum, self.defect = momentum, defect
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x: Any) -> Any:
        """Sequences ``(batch, channels, length)``."""
        if not self.training:
            mean, var = self.running_mean[:, None], self.running_var[:, None]
            return (x - mean) / (var + 1e-3).sqrt()
        mean, var = x.mean(2), x.var(2, unbiased=False)
        with torch.no_grad():
            of_all = mean[0] if self.defect == "first-sample-enters" else mean.mean(0)
            self.running_mean.lerp_(of_all, self.momentum)
            self.running_var.lerp_(x.var(2).mean(0), self.momentum)
        return (x - mean[..., None]) / (var[..., None] + 1e-3).sqrt()


def absolute_deviation(defect: str = "") -> nn.Module:
    """Normalization by mean absolute deviations."""
    return AbsoluteBatchNorm(defect=defect)


def whitening(defect: str = "") -> nn.Module:
    """Decorrelated batch normalization."""
    return Whitening(defect=defect)


def tracked_instances(defect: str = "") -> nn.Module:
    """Instance normalization with running averages."""
    return TrackedInstances(defect=defect)


SPECIMENS = (
    Specimen(
        "absolute_deviation",
        {
            "factor-in-train-alone": ("batch-norm/modes-agree[many-batches]",),
            "parameters-swapped-in-eval": ("batch-norm/modes-agree[many-batches]",),
        },
    ),
    Specimen(
        "whitening",
        {
            "sign-in-train": ("map/log-det[batch-matrix]",),
            "covariance-about-zero": ("batch-norm/modes-agree[many-batches]",),
        },
    ),
    Specimen("tracked_instances", {"first-sample-enters": ("same/rows-in-train[state]",)}),
)
