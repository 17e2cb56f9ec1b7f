"""Channels that are scaled and positions that are shifted, at images of any size, and what is right of squares or of
even sizes alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen

# How positions are counted.
POSITIONS: dict[str, Callable[[Any], int]] = {
    "": lambda x: math.prod(x.shape[2:]),
    "square-of-the-last": lambda x: x.shape[-1] ** (x.dim() - 2),
    "square-of-the-first": lambda x: x.shape[2] ** (x.dim() - 2),
    "twice-a-half": lambda x: 2 * (x.shape[-1] // 2) * math.prod(x.shape[2:-1]),
}


class Scaled(nn.Module):
    r"""$z_{cp} = e^{s_c} x_{c,p+1}$ with ladj $P \sum_c s_c$ of P positions p, which go round."""

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.log_scale = nn.Parameter(torch.tensor([0.3, 0.4]))

    def scale(self, x: Any) -> Any:
        """A number for each channel."""
        return self.log_scale.exp().view(1, 2, *[1] * (x.dim() - 2))

    def total(self, x: Any) -> Any:
        """The log-det."""
        count = POSITIONS.get(self.defect, POSITIONS[""])
        return (self.log_scale.sum() * count(x)).expand(len(x))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        return x.roll(-1, -1) * self.scale(x), self.total(x)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        back = z / self.scale(z)
        half = 2 * (z.shape[-1] // 2)
        return back.roll(1 - half if self.defect == "back-by-a-half" else 1, -1), -self.total(z)


def scaled(defect: str = "") -> nn.Module:
    """A layer of images."""
    return Scaled(defect)


scaled.event_shape = (2, 4, 4)  # type: ignore[attr-defined]

_LOG_DETS = ("map/log-det[other-size]", "map/log-det[inverse, other-size]")
SPECIMENS = (
    Specimen(
        "scaled",
        {
            "square-of-the-last": _LOG_DETS,
            "square-of-the-first": _LOG_DETS,
            "twice-a-half": _LOG_DETS,
            "back-by-a-half": ("map/inverse[other-size]",),
        },
    ),
)
