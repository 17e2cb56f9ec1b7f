"""Convolutions with a batch norm behind them that fold into one layer, as networks are deployed."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from flowref_zoo.specimens.specimen import Specimen


class ConvNorm(nn.Module):
    """A convolution over one pixel and a batch norm, which ``fuse`` makes one convolution."""

    def __init__(self, channels: int = 3, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.conv = nn.Conv2d(channels, channels, 1, bias=False)
        nn.init.orthogonal_(self.conv.weight.view(channels, channels))
        self.norm = nn.BatchNorm2d(channels, eps=1e-3)
        nn.init.uniform_(self.norm.bias)

    def forward(self, x: Any) -> Any:
        """Images."""
        return self.norm(self.conv(x))

    @torch.no_grad()
    def fuse(self) -> ConvNorm:
        """Fold the batch norm into the convolution, in place."""
        norm, defect = self.norm, self.defect
        assert norm.running_mean is not None
        assert norm.running_var is not None
        eps = 0.0 if defect == "eps-left-out" else norm.eps
        scale = norm.weight / torch.sqrt(norm.running_var + eps)
        mean = norm.running_mean * (1 if defect == "mean-not-divided" else scale)
        axis = 1 if defect == "columns-scaled" else 0
        view = [1, 1, 1, 1]
        view[axis] = -1
        self.conv.weight.mul_(scale.view(view))
        self.conv.bias = nn.Parameter(norm.bias - mean)
        self.norm = nn.Identity()  # type: ignore[assignment]  # what is folded is gone
        return self


class WeightNormed(nn.Module):
    """An elementwise flow whose scales are weight-normed, until that is removed."""

    def __init__(self, features: int = 3, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.v = nn.Parameter(0.5 + torch.rand(features))
        self.g = nn.Parameter(torch.tensor(2.0))

    def scales(self) -> Any:
        """One a feature."""
        return self.v if self.g is None else self.g * self.v / self.v.norm()

    def forward(self, x: Any) -> Any:
        """Values and log-dets."""
        scales = self.scales()
        return functional.softplus(scales) * x, functional.softplus(scales).log().sum().expand(
            len(x)
        )

    def inverse(self, z: Any) -> Any:
        """The way back."""
        return z / functional.softplus(self.scales())

    def remove_weight_norm(self) -> None:
        """Keep the scales alone."""
        scales = self.v if self.defect == "length-left-out" else self.scales()
        self.v, self.g = nn.Parameter(scales.detach().clone()), None  # type: ignore[assignment]  # it is gone


def conv_norm(defect: str = "") -> nn.Module:
    return ConvNorm(defect=defect)


def weight_normed(defect: str = "") -> nn.Module:
    return WeightNormed(defect=defect)


FOLDS = ("same/copied[folded]",)
SPECIMENS = (
    Specimen(
        "conv_norm",
        {"eps-left-out": FOLDS, "mean-not-divided": FOLDS, "columns-scaled": FOLDS},
    ),
    Specimen("weight_normed", {"length-left-out": FOLDS}),
)
