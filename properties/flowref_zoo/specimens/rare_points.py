"""Rounding that is lost at few points: a dozen of them do not meet it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen

# Where numbers cancel, and what they are added to.
AT, WITHIN, LARGE = 0.3, 0.01, 1e5


class Cancelling(nn.Module):
    """An affine map, which one branch computes by a difference of large numbers."""

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.log_scale = nn.Parameter(torch.tensor([0.2, -0.1]))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        y = x * self.log_scale.exp()
        if self.defect:
            near = (x - AT).abs() < WITHIN
            rounded = (y + LARGE) - LARGE
            if self.defect == "root":  # of a number that rounding makes negative
                rounded = y + 0 * (1e-9 + rounded - y).sqrt()
            y = torch.where(near, rounded, y)
        return y, self.log_scale.sum().expand(len(x))

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        return z * (-self.log_scale).exp(), -self.log_scale.sum().expand(len(z))


def cancelling(defect: str = "") -> Cancelling:
    """In a hundredth of its range."""
    return Cancelling(defect)


SPECIMENS = (
    Specimen(
        "cancelling",
        {
            "in-a-branch": ("dtype/accurate[many]",),
            "root": ("dtype/accurate[digits, many]",),
        },
    ),
)
