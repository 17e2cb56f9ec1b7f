"""Batch normalizers under names of their own, in the layouts and parametrizations that people use,
with the bugs that such code has: layers that return their value alone.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from flowref_zoo.specimens.specimen import Specimen


class Norm(nn.Module):
    """One class, short names: images, ``g``, ``o`` and the statistics ``mu_hat``, ``s2``."""

    mu_hat: Any
    s2: Any

    def __init__(self, c: int = 3, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.g = nn.Parameter(torch.ones(c))
        self.o = nn.Parameter(torch.zeros(c))
        self.register_buffer("mu_hat", torch.zeros(c))
        self.register_buffer("s2", torch.ones(c))

    def forward(self, x: Any) -> Any:
        """Normalize images, channels second."""
        defect, g, o = self.defect, self.g.view(1, -1, 1, 1), self.o.view(1, -1, 1, 1)
        if self.training or defect == "batch-in-eval":
            m = x.mean((0, 2, 3), keepdim=True)
            v = ((x - m) ** 2).mean((0, 2, 3), keepdim=True)
            if defect == "variance-about-zero":
                v = (x**2).mean((0, 2, 3), keepdim=True)
            if defect == "first-half-only":
                v = x[: len(x) // 2 + 1].var((0, 2, 3), unbiased=False, keepdim=True)
            if defect == "one-axis-missing":
                m, v = (
                    x.mean((0, 2), keepdim=True),
                    x.var((0, 2), unbiased=False, keepdim=True),
                )
            if self.training and defect != "never-updated":
                self.update(m.detach(), v.detach(), x)
            if defect == "mean-detached":
                m = m.detach()
            if defect == "variance-detached":
                v = v.detach()
        else:
            m, v = self.mu_hat.view(1, -1, 1, 1), self.s2.view(1, -1, 1, 1)
        if defect == "updated-in-eval" and not self.training:
            self.update(x.mean((0, 2, 3)), x.var((0, 2, 3)), x)
        if defect == "affine-first":
            return (g * x + o - m) / torch.sqrt(v + 1e-5)
        if defect == "eps-outside":
            return g * (x - m) / (torch.sqrt(v) + 1e-5) + o
        if defect == "other-eps-in-eval" and not self.training:
            return g * (x - m) / torch.sqrt(v + 1e-4) + o
        if defect == "no-eps-in-eval" and not self.training:
            return g * (x - m) / torch.sqrt(v) + o
        if defect == "no-root":
            return g * (x - m) / (v + 1e-5) + o
        if defect == "weight-missing-in-eval" and not self.training:
            return (x - m) / torch.sqrt(v + 1e-5) + o
        if defect == "bias-missing-in-eval" and not self.training:
            return g * (x - m) / torch.sqrt(v + 1e-5)
        return g * (x - m) / torch.sqrt(v + 1e-5) + o

    @torch.no_grad()
    def update(self, m: Any, v: Any, x: Any) -> None:
        """Let the statistics of a batch enter the averages."""
        f, n, defect = 0.1, x[:, 0].numel(), self.defect
        m, v = (
            m.reshape(len(self.g), -1).mean(1),
            v.reshape(len(self.g), -1).mean(1) * n / max(n - 1, 1),
        )
        if defect == "variance-not-updated":
            self.mu_hat += f * (m - self.mu_hat)
            return
        if defect == "variance-replaced":
            self.mu_hat += f * (m - self.mu_hat)
            self.s2.copy_(v)
            return
        if defect == "swapped-for-variance":
            self.mu_hat += f * (m - self.mu_hat)
            self.s2.copy_(f * self.s2 + (1 - f) * v)
            return
        if defect == "old-not-shrunk":
            self.mu_hat += f * m
            self.s2 += f * v
            return
        if defect == "deviation-averaged":
            v = v.sqrt()
        self.mu_hat.copy_((1 - f) * self.mu_hat + f * m)
        self.s2.copy_((1 - f) * self.s2 + f * v)


def short_names(defect: str = "") -> nn.Module:
    """Batch normalization of images, every name short."""
    return Norm(defect=defect)


class ChannelsLast(nn.Module):
    """Images with channels last; a positive scale by softplus, and a running deviation."""

    dev: Any
    center: Any

    def __init__(self, dim: int = 3, keep: float = 0.9, defect: str = "") -> None:
        super().__init__()
        self.keep, self.defect = keep, defect
        self.raw = nn.Parameter(torch.full((dim,), 0.5413248546))
        self.offset = nn.Parameter(torch.zeros(dim))
        self.register_buffer("center", torch.zeros(dim))
        self.register_buffer("dev", torch.ones(dim))

    def forward(self, x: Any) -> Any:
        """Normalize ``(N, H, W, C)``."""
        if x.dim() != 4:
            raise ValueError(f"expected (N, H, W, C), got {tuple(x.shape)}")
        scale, k = functional.softplus(self.raw), self.keep
        if not self.training:
            dev = self.dev if self.defect != "deviation-squared-in-eval" else self.dev**2
            return (x - self.center) / dev * scale + self.offset
        axes = (0, 1, 2) if self.defect != "batch-axis-only" else (0,)
        mean = x.mean(axes, keepdim=True)
        var = (x - mean).pow(2).mean(axes, keepdim=True)
        dev = (var + 1e-4).sqrt()
        with torch.no_grad():
            self.center.mul_(k).add_((1 - k) * mean.reshape(-1, x.shape[-1]).mean(0))
            other = k if self.defect != "deviation-forgets-faster" else k**2
            self.dev.mul_(other).add_((1 - other) * dev.reshape(-1, x.shape[-1]).mean(0))
        if self.defect == "scale-raw-in-train":
            scale = self.raw
        return (x - mean) / dev * scale + self.offset


def channels_last(defect: str = "") -> nn.Module:
    """Batch normalization of images with channels last."""
    return ChannelsLast(defect=defect)


class SequenceBN(nn.Module):
    """Sequences ``(N, L, C)``; scale ``1 + w``, and both statistics in one buffer."""

    stats: Any

    def __init__(self, n_features: int = 4, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.w = nn.Parameter(torch.zeros(n_features))
        self.c = nn.Parameter(torch.zeros(n_features))
        self.register_buffer(
            "stats", torch.stack([torch.zeros(n_features), torch.ones(n_features)])
        )

    def forward(self, h: Any) -> Any:
        """Normalize over samples and times."""
        if self.training:
            flat = h.reshape(-1, h.shape[-1])
            if self.defect == "last-time-only":
                flat = h[:, -1]
            mean, var = flat.mean(0), flat.var(0, unbiased=False)
            with torch.no_grad():
                new = torch.stack([mean, flat.var(0)])
                if self.defect == "rows-swapped":
                    new = new.flip(0)
                if self.defect == "rate-differs":
                    self.stats[0].lerp_(new[0], 0.2)
                    self.stats[1].lerp_(new[1], 0.1)
                else:
                    self.stats.lerp_(new, 0.1)
        else:
            mean, var = self.stats
        out = (h - mean) * torch.rsqrt(var + 1e-5)
        if self.defect == "scale-forgotten-in-eval" and not self.training:
            return out + self.c
        return out * (1 + self.w) + self.c


def sequences(defect: str = "") -> nn.Module:
    """Batch normalization of sequences, features last."""
    return SequenceBN(defect=defect)


class BatchStandardize(nn.Module):
    """Neither parameters nor memory: each batch of vectors by itself, in both modes."""

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect

    def forward(self, x: Any) -> Any:
        """Standardize."""
        axis = 1 if self.defect == "over-features" and self.training else 0
        out = (x - x.mean(axis, keepdim=True)) / (
            x.var(axis, unbiased=False, keepdim=True) + 1e-5
        ).sqrt()
        return 1.01 * out if self.defect == "a-hundredth-too-large" else out


def standardized(defect: str = "") -> nn.Module:
    """Vectors standardized by their batch."""
    return BatchStandardize(defect=defect)


class EmaNorm1d(nn.Module):
    """Functional style, cumulative first and exponential later; squared scale."""

    m1: Any
    m2: Any
    seen: Any

    def __init__(self, width: int = 4, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.root = nn.Parameter(torch.ones(1, width))
        self.add = nn.Parameter(torch.zeros(1, width))
        self.register_buffer("m1", torch.zeros(1, width))
        self.register_buffer("m2", torch.ones(1, width))
        self.register_buffer("seen", torch.tensor(0))

    def forward(self, x: Any) -> Any:
        """Normalize; the averages are of mean and of variance plus eps."""
        if self.training:
            self.m1, self.m2, self.seen, mean, var = moved(
                x, self.m1, self.m2, self.seen, self.defect
            )
        else:
            mean, var = self.m1, self.m2
        return (x - mean) * var.rsqrt() * self.root**2 + self.add


def moved(x: Any, m1: Any, m2: Any, seen: Any, defect: str) -> tuple[Any, ...]:
    """The averages after a batch, and the statistics of the batch."""
    mean = x.mean(0, keepdim=True)
    var = (x - mean).square().mean(0, keepdim=True) + 1e-3
    rate = torch.clamp(1.0 / (seen + 1.0), min=0.05)
    if defect == "rate-grows":
        rate = 1.0 - rate
    second = x.square().mean(0, keepdim=True) if defect == "second-moment" else var
    new = second.detach()
    with torch.no_grad():
        m1, m2 = m1 + rate * (mean - m1), m2 + rate * (new - m2)
    return m1, m2, seen + 1, mean, var


def functional_average(defect: str = "") -> nn.Module:
    """Batch normalization of vectors whose averages warm up."""
    return EmaNorm1d(defect=defect)


FOLLOW, AGREE = ("batch-norm/statistics",), ("batch-norm/modes-agree",)
SPECIMENS = (
    Specimen(
        "short_names",
        {
            "variance-about-zero": ("batch-norm/train-map[deviation]",),
            "batch-in-eval": ("same/rows",),
            "first-half-only": ("batch-norm/train-map[deviation]",),
            "one-axis-missing": ("batch-norm/train-map",),
            "never-updated": FOLLOW,
            "mean-detached": ("batch-norm/gradient[bias-before]",),
            "variance-detached": ("batch-norm/gradient",),
            "updated-in-eval": ("effects/state[eval]",),
            "affine-first": AGREE,
            "eps-outside": ("batch-norm/train-map[deviation]",),
            "other-eps-in-eval": FOLLOW,
            "no-eps-in-eval": FOLLOW,
            "no-root": ("batch-norm/train-map[deviation]",),
            "weight-missing-in-eval": AGREE,
            "bias-missing-in-eval": AGREE,
            "variance-not-updated": FOLLOW,
            "variance-replaced": FOLLOW,
            "swapped-for-variance": FOLLOW,
            "old-not-shrunk": FOLLOW,
            "deviation-averaged": FOLLOW,
        },
    ),
    Specimen(
        "channels_last",
        {
            "deviation-squared-in-eval": FOLLOW,
            "batch-axis-only": ("batch-norm/train-map",),
            "deviation-forgets-faster": FOLLOW,
            "scale-raw-in-train": AGREE,
        },
    ),
    Specimen(
        "sequences",
        {
            "last-time-only": ("batch-norm/train-map",),
            "rows-swapped": FOLLOW,
            "rate-differs": FOLLOW,
            "scale-forgotten-in-eval": AGREE,
        },
    ),
    Specimen(
        "standardized",
        {
            "a-hundredth-too-large": ("batch-norm/train-map[reference]",),
            "over-features": ("same/rows",),
        },
    ),
    Specimen(
        "functional_average",
        {
            "rate-grows": FOLLOW,
            "second-moment": FOLLOW,
        },
    ),
)
