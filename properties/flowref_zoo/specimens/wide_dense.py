"""Maps of many entries that have no structure: each output hangs on each input."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from flowref_zoo.specimens.specimen import Specimen

FEATURES, IMAGE = 1056, (3, 18, 20)


class WideMatrix(nn.Module):
    r"""$z = (\mathrm{diag}(d) + u u^\top) x$, and $\log\det = \sum \log d + \log(1 + u^\top d^{-1} u)$."""

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.event_shape, self.defect = (FEATURES,), defect
        self.log_scale = nn.Parameter(0.3 * torch.randn(FEATURES))
        self.direction = nn.Parameter(torch.randn(FEATURES) / FEATURES**0.5)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        scale, direction = self.log_scale.exp(), self.direction
        logs = self.log_scale[: -1 if self.defect == "last-entry" else None]
        total = logs.sum() + torch.log1p((direction**2 / scale).sum())
        mixed = torch.diag(scale) + torch.outer(direction, direction)
        return functional.linear(x, mixed), total.expand(len(x))


class CircularConvolution(nn.Module):
    """A convolution on a torus: its log-det is a sum over frequencies."""

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.event_shape, self.defect = IMAGE, defect
        self.weight = nn.Parameter(0.1 * torch.randn(3, 3, 3, 3))

    def log_det(self, x: Any) -> Any:
        """The log-dets of the channels, frequency by frequency."""
        height, width = x.shape[2:]
        kernel = functional.pad(self.weight, (0, width - 3, 0, height - 3)).roll((-1, -1), (2, 3))
        at_each = torch.fft.fft2(kernel).permute(2, 3, 0, 1)
        logs = torch.linalg.slogdet(at_each + 1.5 * torch.eye(3, dtype=x.dtype, device=x.device))[1]
        return logs.mean() if self.defect == "mean" else logs.sum()

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        around = functional.pad(x, (1, 1, 1, 1), mode="circular")
        total = self.log_det(x).expand(len(x))
        y = 1.5 * x + functional.conv2d(around, self.weight)
        return y, -total if self.defect == "sign" else total


def matrix(defect: str = "") -> nn.Module:
    """A dense matrix of 1056 entries a side."""
    return WideMatrix(defect)


def circular(defect: str = "") -> nn.Module:
    """A circular convolution of 1080 entries."""
    return CircularConvolution(defect)


SPECIMENS = (
    Specimen("matrix", {"last-entry": ("map/log-det",)}),
    Specimen("circular", {"mean": ("map/log-det",), "sign": ("map/log-det",)}),
)
