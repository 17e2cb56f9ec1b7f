"""Images with small gaps are seen; jumps without a gap, and wide gaps, are not accused."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status


class Jumping(nn.Module):
    """A map of one number that jumps at 1, or at 0."""

    event_shape = (1,)

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        if self.kind == "wrapped":
            inside = x.abs() < math.pi
            z = torch.where(inside, torch.remainder(x + 1, 2 * math.pi), x + 10)
        elif self.kind == "wide":
            z = torch.where(x < 0, x - 1, x + 1)
        else:
            z = torch.where(x > 1, x + (0.01 if self.kind == "gap" else 0.0), x)
        return z, x.new_zeros(len(x))

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        if self.kind == "wrapped":
            inside = (z >= 0) & (z < 2 * math.pi)
            back = torch.remainder(z - 1 + math.pi, 2 * math.pi) - math.pi
            x = torch.where(inside, back, z - 10)
        elif self.kind == "wide":
            x = torch.where(z < 0, z + 1, z - 1)
        else:
            x = torch.where(z > 1.01, z - 0.01, z.clamp(max=1)) if self.kind == "gap" else z
        return x, z.new_zeros(len(z))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("", Status.HOLDS),
        ("wrapped", Status.HOLDS),
        ("wide", Status.HOLDS),
        ("gap", Status.VIOLATED),
    ],
)
def test_a_small_gap_in_the_image_is_seen(kind: str, expected: Status) -> None:
    """Where what lies between the images of neighbors is no image."""
    assert check(Jumping(kind), "map/inverse[gap]", Settings("quick")).status is expected
