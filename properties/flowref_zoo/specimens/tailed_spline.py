"""A monotone spline in plain functions of the module, with identity tails beyond its bound."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


def knots(raw: Any, defect: str, heights: bool) -> Any:
    """Where bins end: from minus the bound to the bound."""
    bound, least = 2.5, 0.05
    share = torch.softmax(raw, -1) * (1 - least * raw.shape[-1]) + least
    ends = torch.cat([torch.zeros_like(share[:, :1]), share.cumsum(-1)], -1)
    top = bound - 1e-3 if heights and defect == "heights-end-below-the-tails" else bound
    return ends * (bound + top) - bound


def curve(x: Any, start: Any, end: Any, defect: str) -> tuple[Any, Any]:
    """The linear spline through knots, and the logarithm of its slope."""
    inside = (x > -2.5) & (x < 2.5)
    at = (x[..., None] >= start[:, 1:-1]).sum(-1)
    low, high, left, right = (
        table.expand(len(x), -1, -1).gather(-1, (at + step)[..., None])[..., 0]
        for table, step in ((start, 0), (start, 1), (end, 0), (end, 1))
    )
    slope = (right - left) / (high - low)
    y = torch.where(inside, left + slope * (x - low), x)
    ladj = torch.where(inside | (defect == "tails-keep-the-slope"), slope, 1).log()
    return y, ladj.sum(-1)


class Tailed(nn.Module):
    """The spline and its inverse."""

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(5)
        self.widths = nn.Parameter(torch.randn(2, 5, generator=generator))
        self.heights = nn.Parameter(torch.randn(2, 5, generator=generator))
        self.defect = defect

    def tables(self) -> tuple[Any, Any]:
        """Knots of both sides."""
        return knots(self.widths, self.defect, False), knots(self.heights, self.defect, True)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        return curve(x, *self.tables(), self.defect)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        return curve(z, *self.tables()[::-1], "")


def tailed(defect: str = "") -> nn.Module:
    """Two features."""
    return Tailed(defect)


SPECIMENS = (
    Specimen(
        "tailed",
        {
            "heights-end-below-the-tails": ("map/inverse[gap]",),
            "tails-keep-the-slope": ("map/log-det",),
        },
    ),
)
