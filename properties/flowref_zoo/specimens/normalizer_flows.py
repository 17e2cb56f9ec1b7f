"""Batch normalization as a layer of a flow, as repositories write it, in both directions, with bugs."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class BatchNormLayer(nn.Module):
    """``log_gamma`` and ``beta``, a momentum that keeps, and the unbiased variance."""

    running_mean: Any
    running_var: Any

    def __init__(
        self, dim: int = 3, momentum: float = 0.9, eps: float = 1e-5, defect: str = ""
    ) -> None:
        super().__init__()
        self.momentum, self.eps, self.defect = momentum, eps, defect
        self.log_gamma = nn.Parameter(torch.zeros(dim))
        self.beta = nn.Parameter(torch.zeros(dim))
        self.register_buffer("running_mean", torch.zeros(dim))
        self.register_buffer("running_var", torch.ones(dim))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        d = self.defect
        if self.training:
            if len(x) < 2:
                raise ValueError("a batch of one has no variance")
            self.batch_mean, self.batch_var = x.mean(0), x.var(0)
            k = self.momentum
            mean, var = self.batch_mean.detach(), self.batch_var.detach()
            self.running_mean.mul_(k).add_(mean * (1 - k))
            self.running_var.mul_(k).add_(
                (var if d != "eps-averaged-once" else var + self.eps) * (1 - k)
            )
            mean, var = self.batch_mean, self.batch_var
            if d == "all-detached":
                mean, var = mean.detach(), var.detach()
        else:
            mean, var = self.running_mean, self.running_var
        x_hat = (x - mean) / torch.sqrt(var + self.eps)
        y = self.log_gamma.exp() * x_hat + self.beta
        if d == "gamma-not-exponentiated":
            y = (1 + self.log_gamma) * x_hat + self.beta
        inside = self.running_var if d == "log-det-of-running" else var
        ld = self.log_gamma - 0.5 * torch.log(inside + self.eps)
        if d == "log-det-without-gamma":
            ld = -0.5 * torch.log(var + self.eps)
        if d == "log-det-half-missing":
            ld = self.log_gamma - torch.log(var + self.eps)
        if d == "log-det-without-eps":
            ld = self.log_gamma - 0.5 * torch.log(var)
        if d == "log-det-sign":
            ld = -ld
        if d == "log-det-mean":
            return y, ld.mean().expand(len(x))
        if d == "log-det-times-batch":
            return y, (len(x) * ld.sum()).expand(len(x))
        return y, ld.sum().expand(len(x))

    def inverse(self, y: Any) -> tuple[Any, Any]:
        """Latents to data; in training by the statistics of the batch before."""
        if self.training:
            mean, var = self.batch_mean, self.batch_var
        else:
            mean, var = self.running_mean, self.running_var
        eps = 0.0 if self.defect == "inverse-without-eps" else self.eps
        x = (y - self.beta) * torch.exp(-self.log_gamma) * torch.sqrt(var + eps) + mean
        if self.defect == "inverse-order":
            x = (y * torch.exp(-self.log_gamma) - self.beta) * torch.sqrt(var + eps) + mean
        ld = 0.5 * torch.log(var + self.eps) - self.log_gamma
        if self.defect == "inverse-log-det-sign":
            ld = -ld
        return x, ld.sum().expand(len(y))


def kept_momentum(defect: str = "") -> nn.Module:
    """Batch normalization of three features as a layer of a flow."""
    return BatchNormLayer(defect=defect)


class SpatialNorm(nn.Module):
    """Images, ``(y, log_det)``, a running scale that contains eps."""

    mu: Any
    sigma2: Any

    def __init__(self, channels: int = 2, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.s = nn.Parameter(torch.zeros(1, channels, 1, 1))
        self.t = nn.Parameter(torch.zeros(1, channels, 1, 1))
        self.register_buffer("mu", torch.zeros(1, channels, 1, 1))
        self.register_buffer("sigma2", torch.ones(1, channels, 1, 1))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        mu, sigma2 = self.mu, self.sigma2
        if self.training:
            mu = x.mean(dim=[0, 2, 3], keepdim=True)
            sigma2 = ((x - mu) ** 2).mean(dim=[0, 2, 3], keepdim=True) + 1e-6
            self.mu.data = 0.95 * self.mu.data + 0.05 * mu.data
            self.sigma2.data = 0.95 * self.sigma2.data + 0.05 * sigma2.data
        z = (x - mu) / sigma2.sqrt() * torch.exp(self.s) + self.t
        pixels = x.shape[2] * x.shape[3]
        if self.defect == "one-position":
            pixels = 1
        if self.defect == "one-side":
            pixels = x.shape[2]
        ld = pixels * (self.s - 0.5 * torch.log(sigma2)).sum()
        if self.defect == "log-det-of-whole-batch":
            return z, len(x) * ld.repeat(len(x))
        return z, ld.repeat(len(x))

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data, by the running statistics."""
        x = (z - self.t) * torch.exp(-self.s) * self.sigma2.sqrt() + self.mu
        ld = z.shape[2] * z.shape[3] * (0.5 * torch.log(self.sigma2) - self.s).sum()
        return x, ld.repeat(len(z))


def spatial(defect: str = "") -> nn.Module:
    """Batch normalization of images as a layer of a flow."""
    return SpatialNorm(defect=defect)


class SamplingBN(nn.Module):
    """Forward makes data of latents, and inverse normalizes the data."""

    ra_mean: Any
    ra_var: Any

    def __init__(self, num_inputs: int = 4, momentum: float = 0.1, defect: str = "") -> None:
        super().__init__()
        self.momentum, self.eps, self.defect = momentum, 1e-5, defect
        self.gamma = nn.Parameter(torch.ones(num_inputs))
        self.beta = nn.Parameter(torch.zeros(num_inputs))
        self.register_buffer("ra_mean", torch.zeros(num_inputs))
        self.register_buffer("ra_var", torch.ones(num_inputs))

    def inverse(self, x: Any) -> tuple[Any, Any]:
        """Data to latents: the direction that normalizes."""
        mean, var = self.ra_mean, self.ra_var
        if self.training:
            if len(x) < 2:
                raise ValueError("a batch of one has no variance")
            mean, var = x.mean(0), x.var(0, unbiased=False)
            with torch.no_grad():
                self.ra_mean.lerp_(mean, self.momentum)
                if self.defect != "variance-never-moves":
                    self.ra_var.lerp_(x.var(0), self.momentum)
        std = (var + self.eps).sqrt()
        scale = self.gamma / std
        z = (x - mean) * scale + self.beta
        ld = scale.abs().log().sum()
        if self.defect == "inverse-log-det-of-deviation":
            ld = -std.log().sum()
        return z, ld.expand(len(x))

    def forward(self, z: Any) -> tuple[Any, Any]:
        """Latents to data, by the running statistics."""
        scale = self.gamma / (self.ra_var + self.eps).sqrt()
        if self.defect == "eps-left-out":
            scale = self.gamma / self.ra_var.sqrt()
        if self.defect == "beta-added":
            return (z + self.beta) / scale + self.ra_mean, -scale.abs().log().sum().expand(len(z))
        return (z - self.beta) / scale + self.ra_mean, -scale.abs().log().sum().expand(len(z))


def sampling_direction(defect: str = "") -> nn.Module:
    """Batch normalization whose inverse normalizes."""
    return SamplingBN(defect=defect)


SLOPES, BACK = ("map/log-det[slopes]",), ("map/inverse",)
FOLLOW = ("batch-norm/statistics",)
SPECIMENS = (
    Specimen(
        "kept_momentum",
        {
            "log-det-of-running": SLOPES,
            "eps-averaged-once": FOLLOW,
            "all-detached": ("batch-norm/gradient",),
            "gamma-not-exponentiated": SLOPES,
            "log-det-without-gamma": SLOPES,
            "log-det-half-missing": SLOPES,
            "log-det-without-eps": SLOPES,
            "log-det-sign": SLOPES,
            "log-det-mean": SLOPES,
            "log-det-times-batch": SLOPES,
            "inverse-without-eps": BACK,
            "inverse-order": BACK,
            "inverse-log-det-sign": ("map/log-det[antisymmetry]", "map/log-det[inverse]"),
        },
    ),
    Specimen(
        "spatial",
        {
            "one-side": SLOPES,
            "one-position": SLOPES,
            "log-det-of-whole-batch": SLOPES,
        },
    ),
    Specimen(
        "sampling_direction",
        {
            "variance-never-moves": FOLLOW,
            "inverse-log-det-of-deviation": SLOPES,
            "eps-left-out": BACK,
            "beta-added": BACK,
        },
    ),
)
