"""Batch normalization whose numbers are fixed, as detectors that are fine-tuned have it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class FrozenBatchNorm2d(nn.Module):
    """One scale and one shift of each channel, from four buffers."""

    weight: Any
    bias: Any
    running_mean: Any
    running_var: Any

    def __init__(self, num_features: int = 3, eps: float = 1e-5, defect: str = "") -> None:
        super().__init__()
        self.num_features, self.eps, self.defect = num_features, eps, defect
        one = torch.arange(num_features) / num_features
        self.register_buffer("weight", 0.5 + one)
        self.register_buffer("bias", one - 0.3)
        self.register_buffer("running_mean", 0.7 - one)
        self.register_buffer("running_var", 0.4 + one)
        self.kept = self.folded() if defect == "folded-once" else None

    def folded(self) -> tuple[Any, Any]:
        """Scale and shift."""
        eps = 0.0 if self.defect == "eps-left-out" else self.eps
        var = self.running_var + eps
        scale = self.weight * (var.sqrt() if self.defect == "multiplied" else var.rsqrt())
        mean = self.running_mean * (1.0 if self.defect == "mean-not-scaled" else scale)
        return scale, self.bias - mean

    def forward(self, x: Any) -> Any:
        """Scale and shift."""
        scale, shift = self.kept or self.folded()
        return x * scale[:, None, None].to(x.dtype) + shift[:, None, None].to(x.dtype)


class VideoBatchNorm(nn.Module):
    """Frames are samples of their own; by torch's function."""

    running_mean: Any
    running_var: Any

    def __init__(self, num_features: int = 3, momentum: float = 0.05, defect: str = "") -> None:
        super().__init__()
        self.num_features, self.momentum, self.defect = num_features, momentum, defect
        self.weight = nn.Parameter(torch.ones(num_features))
        self.bias = nn.Parameter(torch.zeros(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))

    def forward(self, x: Any) -> Any:
        """Normalize."""
        training = self.training and self.defect != "mode-forgotten"
        frames = x.transpose(1, 2).flatten(0, 1)
        statistics = self.running_mean, self.running_var
        y = nn.functional.batch_norm(
            frames, *statistics, self.weight, self.bias, training, self.momentum
        )
        return y.unflatten(0, (x.shape[0], x.shape[2])).transpose(1, 2)


def frozen(defect: str = "") -> nn.Module:
    """A frozen layer."""
    return FrozenBatchNorm2d(defect=defect)


def video(defect: str = "") -> nn.Module:
    """Batch normalization of videos."""
    return VideoBatchNorm(defect=defect)


video.event_shape = (3, 2, 4, 4)  # type: ignore[attr-defined]  # an option

SPECIMENS = (
    Specimen(
        "frozen",
        {
            "eps-left-out": ("batch-norm/eval-map[fixed]",),
            "multiplied": ("batch-norm/eval-map[fixed]",),
            "mean-not-scaled": ("batch-norm/eval-map[fixed]",),
            "folded-once": ("batch-norm/eval-map[fixed]",),
        },
    ),
    Specimen("video", {"mode-forgotten": ("batch-norm/modes-agree[difference]",)}),
)
