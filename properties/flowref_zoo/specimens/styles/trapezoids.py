"""Distribution functions made of trapezoids, from the unit interval onto itself."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class Trapezoids(nn.Module):
    r"""In each of $K$ bins of equal width $w$ the slope runs from $h_k$ to $h_{k+1}$; heights are
    divided by the area $w \sum_k (h_k + h_{k+1}) / 2$, so that the ends are fixed.
    """

    domain = codomain = torch.distributions.constraints.unit_interval
    event_shape = (2,)

    def __init__(self, bins: int = 6, defect: str = "") -> None:
        super().__init__()
        self.heights, self.bins, self.defect = nn.Parameter(torch.randn(2, bins + 1)), bins, defect

    def tables(self) -> tuple[Any, Any]:
        """Heights at knots, and what is below each knot."""
        heights = F.softplus(self.heights) + 0.1
        area = (heights[:, 1:] + heights[:, :-1]).sum(-1, keepdim=True) / (2 * self.bins)
        if self.defect == "area-of-rectangles":
            area = heights[:, 1:].sum(-1, keepdim=True) / self.bins
        heights = heights / area
        steps = (heights[:, 1:] + heights[:, :-1]) / (2 * self.bins)
        return heights, F.pad(steps.cumsum(-1), (1, 0))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Numbers to their shares."""
        heights, below = self.tables()
        at = (x.detach() * self.bins).floor().long().clamp(0, self.bins - 1)
        column = torch.arange(2).expand_as(at)
        left, right, start = heights[column, at], heights[column, at + 1], below[column, at]
        t = x * self.bins - at
        y = start + (left * t + (right - left) * t**2 / 2) / self.bins
        return y, (left + t * (right - left)).log().sum(-1)

    def inverse(self, y: Any) -> tuple[Any, Any]:
        """Shares to numbers."""
        heights, below = self.tables()
        inner = below[:, 1:-1]
        at = (y.detach()[..., None] >= inner).sum(-1)
        column = torch.arange(2).expand_as(at)
        left, right, start = heights[column, at], heights[column, at + 1], below[column, at]
        rise, rest = right - left, (y - start) * self.bins
        if self.defect == "half-the-rise":
            rise = rise / 2
        t = 2 * rest / (left + torch.sqrt(left**2 + 2 * rise * rest))
        return (at + t) / self.bins, -(left + t * rise).log().sum(-1)


def trapezoids(defect: str = "") -> nn.Module:
    """Two numbers, six bins each."""
    return Trapezoids(defect=defect)


SPECIMENS = (
    Specimen(
        "trapezoids",
        {
            "area-of-rectangles": ("map/domain[image]", "map/domain[preimage]"),
            "half-the-rise": ("map/inverse",),
        },
    ),
)
