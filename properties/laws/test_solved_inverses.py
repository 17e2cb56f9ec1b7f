"""Gradients of inverses that are found by a solver: implicit ones hold, those of a bracket do not, and
of a search without gradients nothing is said.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status

LAW = "map/inverse-jacobian[solver]"


class Solved(nn.Module):
    r"""$z = 2x + \sin x$, whose inverse is found by bisection."""

    event_shape = (2,)
    inverse_tolerance = 1e-6

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return 2 * x + x.sin(), (2 + x.cos()).log().sum(1)

    def searched(self, z: Any) -> Any:
        """Bisection between two lines."""
        low, high = (z - 1) / 2, (z + 1) / 2
        for _ in range(60):
            middle = (low + high) / 2
            up = 2 * middle + middle.sin() < z
            low, high = torch.where(up, middle, low), torch.where(up, high, middle)
        return (low + high) / 2

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        if self.way == "bracket":
            x = self.searched(z)
        else:
            with torch.no_grad():
                x = self.searched(z)
        if self.way == "implicit":  # a step of Newton's that changes nothing but the gradient
            x = x - (2 * x + x.sin() - z) / (2 + x.cos())
        return x, -(2 + x.cos()).log().sum(1)


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("implicit", Status.HOLDS),
        ("bracket", Status.VIOLATED),
        ("detached", Status.NOT_APPLICABLE),
    ],
)
def test_gradients_of_a_search(way: str, expected: Status) -> None:
    """What is recorded is right, or is nothing."""
    assert check(Solved(way), LAW, Settings("quick")).status is expected
