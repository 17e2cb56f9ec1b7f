"""Batch normalization under its own name, written from the formula, with one bug each."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class BatchNorm(nn.Module):
    """Vectors, the names of Keras."""

    moving_mean: Any
    moving_var: Any

    def __init__(
        self, num_features: int = 3, eps: float = 1e-5, momentum: float = 0.1, defect: str = ""
    ) -> None:
        super().__init__()
        self.eps, self.momentum, self.defect = eps, momentum, defect
        self.gamma = nn.Parameter(torch.ones(num_features))
        self.beta = nn.Parameter(torch.zeros(num_features))
        self.register_buffer("moving_mean", torch.zeros(num_features))
        self.register_buffer("moving_var", torch.ones(num_features))

    def forward(self, x: Any) -> Any:
        """Normalize a batch."""
        gamma: Any = self.gamma
        eps = self.eps
        if not self.training:
            return self.evaluated(x)
        mean, var = x.mean(0), x.var(0, unbiased=False)
        self.update(x, mean.detach(), var.detach())
        match self.defect:
            case "not-divided":
                return (x - mean) * gamma + self.beta
            case "not-centered":
                return x / (var + eps).sqrt() * gamma + self.beta
            case "deviation-plus-eps":
                return (x - mean) / (var.sqrt() + eps) * gamma + self.beta
            case "over-features":
                mean, var = x.mean(1, keepdim=True), x.var(1, unbiased=False, keepdim=True)
            case "averages-in-train-mode":
                mean, var = self.moving_mean, self.moving_var
            case "one-mean-for-all":
                mean = x.mean()
            case "one-variance-for-all":
                var = var.mean()
            case "variance-about-zero":
                var = x.square().mean(0)
            case "detached":
                mean, var = mean.detach(), var.detach()
            case "gamma-detached":
                gamma = gamma.detach()
            case "gamma-missing-in-train-mode":
                gamma = torch.ones_like(gamma)
            case "clamped":
                return ((x - mean) / (var + eps).sqrt()).clamp(-2, 2) * gamma + self.beta
        return (x - mean) / (var + eps).sqrt() * gamma + self.beta

    def evaluated(self, x: Any) -> Any:
        """The output in eval mode."""
        gamma: Any = self.gamma
        eps, mean, var = self.eps, self.moving_mean, self.moving_var
        match self.defect:
            case "batch-in-eval-mode":
                mean, var = x.mean(0), x.var(0, unbiased=False)
            case "gamma-squared-in-eval-mode":
                gamma = gamma**2
            case "eps-of-its-own-in-eval-mode":
                eps = 1e-3
            case "variance-for-deviation-in-eval-mode":
                return (x - mean) / (var + eps) * gamma + self.beta
        return (x - mean) / (var + eps).sqrt() * gamma + self.beta

    @torch.no_grad()
    def update(self, x: Any, mean: Any, var: Any) -> None:
        """Let the statistics of a batch enter the averages."""
        part, n = self.momentum, len(x)
        unbiased = var * n / max(n - 1, 1)
        match self.defect:
            case "never-updated":
                return
            case "mean-alone":
                unbiased = self.moving_var
            case "variance-alone":
                mean = self.moving_mean
            case "swapped-for-mean":
                self.moving_mean.lerp_(mean, 1 - 2 * part)
            case "added-up":
                self.moving_mean.mul_(1 / (1 - part))
                self.moving_var.mul_(1 / (1 - part))
            case "second-moment-averaged":
                unbiased = x.square().mean(0)
            case "first-sample-averaged":
                mean = x[0]
            case "output-averaged":
                hat = (x - mean) / (var + self.eps).sqrt()
                mean, unbiased = hat.mean(0), hat.var(0)
            case "n-plus-one":
                unbiased = var * n / (n + 1)
            case "away":
                mean = 2 * self.moving_mean - mean
            case "twice":
                self.moving_mean.lerp_(mean, part)
                self.moving_var.lerp_(unbiased, part)
        self.moving_mean.lerp_(mean, part)
        self.moving_var.lerp_(unbiased, part)


def batch_norm(defect: str = "") -> nn.Module:
    """Batch normalization of vectors."""
    return BatchNorm(defect=defect)


MAP, DEVIATION = ("batch-norm/train-map",), ("batch-norm/train-map[deviation]",)
FOLLOW = ("batch-norm/statistics",)
SPECIMENS = (
    Specimen(
        "batch_norm",
        {
            "not-divided": DEVIATION,
            "not-centered": MAP,
            "deviation-plus-eps": DEVIATION,
            "over-features": MAP,
            "averages-in-train-mode": MAP,
            "one-mean-for-all": MAP,
            "one-variance-for-all": DEVIATION,
            "variance-about-zero": DEVIATION,
            "detached": ("batch-norm/gradient",),
            "gamma-detached": ("batch-norm/gradient[closed-form]",),
            "gamma-missing-in-train-mode": ("batch-norm/modes-agree",),
            "clamped": MAP,
            "batch-in-eval-mode": ("same/rows",),
            "gamma-squared-in-eval-mode": ("batch-norm/modes-agree",),
            "eps-of-its-own-in-eval-mode": FOLLOW,
            "variance-for-deviation-in-eval-mode": FOLLOW,
            "never-updated": FOLLOW,
            "mean-alone": FOLLOW,
            "variance-alone": FOLLOW,
            "swapped-for-mean": FOLLOW,
            "added-up": FOLLOW,
            "second-moment-averaged": FOLLOW,
            "first-sample-averaged": FOLLOW,
            "output-averaged": FOLLOW,
            "n-plus-one": FOLLOW,
            "away": FOLLOW,
            "twice": ("batch-norm/statistics[buffers]",),
        },
    ),
)
