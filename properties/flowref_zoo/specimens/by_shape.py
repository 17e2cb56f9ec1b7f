"""An image flow that keeps what depends on shapes alone, rightly and wrongly."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from flowref_zoo.specimens.specimen import Specimen


class KeptMasks(nn.Module):
    """A checkerboard coupling of whose mask a copy is kept for each shape."""

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.event_shape, self.defect = (2, 4, 6), defect
        self.weight = nn.Parameter(0.2 * torch.randn(4, 2, 3, 3))
        self.log_scale = nn.Parameter(0.2 * torch.randn(2, 1, 1))
        self.masks: dict[Any, Any] = {}

    def mask(self, x: Any) -> Any:
        """Ones and zeros, as on a board."""
        height, width = x.shape[2:]
        key: Any = (height, width, x.dtype, x.device)
        if self.defect == "by-number":
            key = height * width
        if key not in self.masks:
            board = torch.arange(height)[:, None] + torch.arange(width)
            self.masks[key] = (board % 2).to(x)
        return self.masks[key].reshape(height, width)

    def constant(self, x: Any) -> Any:
        """The log-det of the scales, for each point."""
        positions = x[0, 0].numel()
        if self.defect == "first-size":
            positions = self.masks.setdefault("positions", positions)
        return (positions * self.log_scale.sum()).expand(len(x))

    def moves(self, x: Any, mask: Any) -> tuple[Any, Any]:
        """Logarithms of scales, and shifts, where the mask is zero."""
        raw, shift = functional.conv2d(x * mask, self.weight, padding=1).chunk(2, 1)
        return raw.tanh() * (1 - mask), shift * (1 - mask)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        mask = self.mask(x)
        scale, shift = self.moves(x, mask)
        if self.defect == "pairs":
            near = torch.cdist(x.flatten(1), x.flatten(1)).sum(1)
            shift = shift + 0.0 * near[:, None, None, None]
        z = (x * scale.exp() + shift) * self.log_scale.exp()
        return z, scale.sum((1, 2, 3)) + self.constant(x)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        mask = self.mask(z)
        y = z * (-self.log_scale).exp()
        scale, shift = self.moves(y, mask)
        return (y - shift) * (-scale).exp(), -scale.sum((1, 2, 3)) - self.constant(z)


def image(defect: str = "") -> nn.Module:
    """A coupling of images that keeps its masks."""
    return KeptMasks(defect)


SPECIMENS = (
    Specimen(
        "image",
        {
            "by-number": ("same/history[other-sizes]",),
            "first-size": ("same/history[other-sizes]",),
            "pairs": ("effects/memory[rows]",),
        },
    ),
)
