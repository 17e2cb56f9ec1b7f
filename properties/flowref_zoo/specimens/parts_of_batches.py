"""Layers that are called batch normalization and normalize parts of a batch, or take its mean alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class GhostBatchNorm(nn.Module):
    """Virtual batches of eight rows, one after the other, by one layer."""

    def __init__(self, features: int = 3, rows: int = 8, defect: str = "") -> None:
        super().__init__()
        self.rows, self.defect = rows, defect
        self.norm = nn.BatchNorm1d(features, momentum=0.02)

    def forward(self, x: Any) -> Any:
        """Normalize each virtual batch."""
        if not self.training:
            return self.norm(x)
        parts = x.chunk(-(-len(x) // self.rows), 0)
        if self.defect == "interleaved":
            count = len(parts)
            return torch.cat([self.norm(x[start::count]) for start in range(count)])
        if self.defect == "first-part-enters":
            rest = [nn.functional.batch_norm(part, None, None, training=True) for part in parts[1:]]
            return torch.cat([self.norm(parts[0]), *rest])
        if self.defect == "rest-dropped" and len(parts) > 1:
            parts = [part for part in parts if len(part) == len(parts[0])]
        return torch.cat([self.norm(part) for part in parts])


class JoinedBatchNorm(nn.Module):
    """Virtual batches of eight rows, of which the last takes what is left over."""

    def __init__(self, features: int = 3, rows: int = 8, defect: str = "") -> None:
        super().__init__()
        self.rows, self.defect = rows, defect
        self.norm = nn.BatchNorm1d(features, momentum=0.02)

    def forward(self, x: Any) -> Any:
        """Normalize each virtual batch."""
        if not self.training:
            return self.norm(x)
        count = max(1, len(x) // self.rows)
        sizes = [self.rows] * (count - 1)
        *parts, last = x.split([*sizes, len(x) - sum(sizes)])
        alone = self.defect == "last-part-enters"
        whole = [
            nn.functional.batch_norm(part, None, None, training=True) if alone else self.norm(part)
            for part in parts
        ]
        return torch.cat([*whole, self.norm(last)])


class MeanOnlyBatchNorm(nn.Module):
    """The mean of a batch is taken away, as beside weight normalization; its spread stays."""

    running_mean: Any

    def __init__(self, features: int = 3, momentum: float = 0.1, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.bias, self.momentum = nn.Parameter(torch.zeros(features)), momentum
        self.register_buffer("running_mean", torch.zeros(features))

    def forward(self, x: Any) -> Any:
        """Center."""
        mean = self.running_mean
        if self.training or self.defect == "moves-in-eval":
            mean = x.mean(0)
            self.running_mean = torch.lerp(self.running_mean, mean.detach(), self.momentum)
        return x - mean + self.bias


def ghost(defect: str = "") -> nn.Module:
    """Ghost batch normalization."""
    return GhostBatchNorm(defect=defect)


def joined(defect: str = "") -> nn.Module:
    """Ghost batch normalization that leaves no rows over."""
    return JoinedBatchNorm(defect=defect)


def mean_only(defect: str = "") -> nn.Module:
    """Mean-only batch normalization."""
    return MeanOnlyBatchNorm(defect=defect)


SPECIMENS = (
    Specimen(
        "ghost",
        {
            "interleaved": ("batch-norm/train-map[row-places]",),
            "first-part-enters": ("batch-norm/statistics[every-row]",),
            "rest-dropped": ("batch-norm/train-map[row-places]",),
        },
    ),
    Specimen("joined", {"last-part-enters": ("batch-norm/statistics[every-row]",)}),
    Specimen("mean_only", {"moves-in-eval": ("effects/state[eval]",)}),
)
