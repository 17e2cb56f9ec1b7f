"""Normalizers that do something else than batch normalization on purpose, whatever they are called:
running averages in train mode, instances, groups, layers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class RunningBatchNorm(nn.Module):
    """Real NVP's appendix: train mode normalizes by averages that the batch has entered."""

    avg: Any
    avg_sq_dev: Any

    def __init__(self, dim: int = 3, rho: float = 0.3, defect: str = "") -> None:
        super().__init__()
        self.rho, self.defect = rho, defect
        self.register_buffer("avg", torch.zeros(dim))
        self.register_buffer("avg_sq_dev", torch.ones(dim))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        if self.training:
            mean, var = x.mean(0), x.var(0, unbiased=False)
            mu = (1 - self.rho) * self.avg + self.rho * mean
            s2 = (1 - self.rho) * self.avg_sq_dev + self.rho * var
            if self.defect == "old-mean-used":
                mu = self.avg.clone()
            if self.defect == "kept-otherwise":
                self.avg = mean.detach()
            else:
                self.avg = ((1 - self.rho) * self.avg + self.rho * mean).detach()
            self.avg_sq_dev = s2.detach()
        else:
            mu, s2 = self.avg, self.avg_sq_dev
        y = (x - mu) / (s2 + 1e-5).sqrt()
        half = 1.0 if self.defect == "half-missing" else 0.5
        return y, -half * (s2 + 1e-5).log().sum().expand(len(x))

    def inverse(self, y: Any) -> tuple[Any, Any]:
        """Latents to data."""
        s2 = self.avg_sq_dev + 1e-5
        return y * s2.sqrt() + self.avg, 0.5 * s2.log().sum().expand(len(y))


def running_averages(defect: str = "") -> nn.Module:
    """Normalization by running averages."""
    return RunningBatchNorm(defect=defect)


class PerSample(nn.Module):
    """Statistics of each sample: over the positions (instance), over all (layer) or in groups."""

    def __init__(
        self, channels: int = 4, groups: int = 2, eps: float = 1e-5, defect: str = ""
    ) -> None:
        super().__init__()
        self.groups, self.eps, self.defect = groups, eps, defect
        self.gamma = nn.Parameter(torch.ones(1, channels, 1, 1))
        self.beta = nn.Parameter(torch.zeros(1, channels, 1, 1))

    def forward(self, x: Any) -> Any:
        """Normalize each sample."""
        rows = x.reshape(len(x), self.groups, -1)
        mean, var = rows.mean(2, keepdim=True), rows.var(2, unbiased=False, keepdim=True)
        if self.defect == "second-moment":
            var = (rows**2).mean(2, keepdim=True) - mean**2
        if self.defect == "unbiased":
            var = rows.var(2, keepdim=True)
        hat = ((rows - mean) / (var + self.eps).sqrt()).reshape(x.shape)
        if self.defect == "scaled-in-train" and self.training:
            return hat * self.gamma * 1.1 + self.beta
        if self.defect == "weight-twice":
            return hat * self.gamma * self.gamma + self.beta
        if self.defect == "weight-by-group":
            each = self.gamma.shape[1] // self.groups
            return hat * self.gamma[:, : self.groups].repeat_interleave(each, 1) + self.beta
        if self.defect == "weight-in-train-alone" and not self.training:
            return hat + self.beta
        return hat * self.gamma + self.beta


class BatchNormPerInstance(PerSample):
    """An instance norm that is called batch normalization."""

    def __init__(self, defect: str = "") -> None:
        super().__init__(4, 4, 1e-5, defect)


def groups(defect: str = "") -> nn.Module:
    """Group normalization of images."""
    return PerSample(defect=defect)


def instances(defect: str = "") -> nn.Module:
    """Instance normalization of images, called otherwise."""
    return BatchNormPerInstance(defect)


def layer(defect: str = "") -> nn.Module:
    """Normalization of whole samples."""
    return PerSample(groups=1, defect=defect)


class BesideTheRoot(nn.Module):
    """Layer normalization as a well-known tutorial has it: eps beside the root, deviation by n - 1."""

    def __init__(self, features: int = 6, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.a_2, self.b_2 = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features))

    def forward(self, x: Any) -> Any:
        """Normalize each sample."""
        mean, spread = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
        loud = 1.1 if self.defect == "scaled-in-train" and self.training else 1.0
        return loud * self.a_2 * (x - mean) / (spread + 1e-6) + self.b_2


class Switching(nn.Module):
    """Statistics of instances and of layers, mixed by learned weights."""

    def __init__(self, channels: int = 4, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.weight = nn.Parameter(torch.ones(1, channels, 1, 1))
        self.bias = nn.Parameter(torch.zeros(1, channels, 1, 1))
        self.mixing = nn.Parameter(torch.ones(2))

    def forward(self, x: Any) -> Any:
        """Normalize each sample."""
        own, spread = x.mean((2, 3), keepdim=True), x.var((2, 3), unbiased=False, keepdim=True)
        whole = own.mean(1, keepdim=True)
        between = (spread + own**2).mean(1, keepdim=True) - whole**2
        one, other = self.mixing.softmax(0)
        mean, var = one * own + other * whole, one * spread + other * between
        if self.defect == "bias-before-weight":
            return ((x - mean) / (var + 1e-5).sqrt() + self.bias) * self.weight
        return (x - mean) / (var + 1e-5).sqrt() * self.weight + self.bias


def beside_the_root(defect: str = "") -> nn.Module:
    """Layer normalization with eps beside the root."""
    return BesideTheRoot(defect=defect)


def switching(defect: str = "") -> nn.Module:
    """Switchable normalization without statistics of batches."""
    return Switching(defect=defect)


SPECIMENS = (
    Specimen("beside_the_root", {"scaled-in-train": ("same/train-mode[per-sample]",)}),
    Specimen("switching", {"bias-before-weight": ("sample-norm/formula[parameters]",)}),
    Specimen(
        "running_averages",
        {
            "kept-otherwise": ("batch-norm/modes-agree[running-average]", "batch-norm/train-map"),
            "half-missing": ("map/log-det[slopes]",),
            "old-mean-used": ("batch-norm/train-map", "batch-norm/modes-agree[running-average]"),
        },
    ),
    Specimen(
        "groups",
        {
            "scaled-in-train": ("same/train-mode[per-sample]",),
            "second-moment": ("batch-norm/numerics[per-sample]",),
            "unbiased": ("batch-norm/conventions[variance, per-sample]",),
            "weight-twice": ("sample-norm/formula[parameters]",),
            "weight-by-group": ("sample-norm/formula[parameters]",),
            "weight-in-train-alone": ("sample-norm/formula[parameters]",),
        },
    ),
    Specimen("instances", {"scaled-in-train": ("same/train-mode[per-sample]",)}),
    Specimen("layer", {"scaled-in-train": ("same/train-mode[per-sample]",)}),
)
