"""Batch normalization of images, written with buffers of other names."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn as nn

from flowref_zoo.specimens.specimen import Specimen


def per_channel(values: Any) -> Any:
    return values.view(1, -1, 1, 1)


class BatchNormImg(nn.Module):
    r"""$y = w (x - \mu) / \sqrt{v + \epsilon} + b$ per channel of ``(N, C, H, W)``."""

    event_shape = (3, 4, 5)
    rm: Any
    rv: Any
    n: Any

    def __init__(self, c: int = 3, defect: str = "") -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.rand(c) + 0.5), nn.Parameter(torch.randn(c))
        self.register_buffer("rm", torch.zeros(c))
        self.register_buffer("rv", torch.ones(c))
        self.register_buffer("n", torch.tensor(0))
        self.defect = defect

    def forward(self, x: Any) -> Any:
        b = self.defect
        ax = (0, 2) if b == "axes" else (0, 2, 3)
        if self.training and not (b == "alone-as-in-eval" and len(x) == 1):
            if b == "axes":
                mean = x.mean(ax).mean(1)
                var = x.var(ax, unbiased=False).mean(1)
            elif b == "var-mean-of-var":
                mean = x.mean(ax)
                var = x.var((2, 3), unbiased=False).mean(0)
            elif b == "second-moment":
                mean = x.mean(ax)
                var = (x.float() ** 2).mean(ax).to(x.dtype) - mean**2
            else:
                mean = x.mean(ax)
                var = x.var(ax, unbiased=False)
            with torch.no_grad():
                self.n += 1
                cnt = x.numel() / x.shape[1]
                if b == "count":
                    cnt = x.shape[0] + 1e-09 if x.shape[0] > 1 else 2
                k = 1 / float(self.n) if b == "cumulative" else 0.1
                self.rm += k * (mean - self.rm)
                self.rv += k * (var * cnt / (cnt - 1) - self.rv)
        else:
            mean, var = self.rm, self.rv
        inv = torch.rsqrt(var + 1e-05)
        if b == "weight-plus":
            return (x - per_channel(mean)) * per_channel(inv) * per_channel(
                1 + self.weight
            ) + per_channel(self.bias)
        if b == "bias-scaled":
            return (
                (x - per_channel(mean)) * per_channel(inv) + per_channel(self.bias)
            ) * per_channel(self.weight)
        return (x - per_channel(mean)) * per_channel(inv) * per_channel(self.weight) + per_channel(
            self.bias
        )


def normalizer_images(defect: str = "") -> Any:
    torch.manual_seed(28)
    return BatchNormImg(defect=defect)


SPECIMENS = (
    Specimen(
        "normalizer_images",
        {
            "axes": ("batch-norm/gradient[closed-form]",),
            "var-mean-of-var": ("batch-norm/gradient[closed-form]",),
            "second-moment": ("batch-norm/numerics[offset]", "dtype/follows"),
            "count": ("batch-norm/statistics[buffers]",),
            "alone-as-in-eval": ("batch-norm/train-map",),
            "bias-scaled": ("batch-norm/gradient[closed-form]",),
        },
    ),
)
