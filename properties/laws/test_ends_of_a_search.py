"""A search need not find what lies beyond all that a base draws; what it misses nearer is accused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status

QUICK = Settings("quick")
LAWS = ("map/inverse", "map/inverse[latents]")


class Searched(nn.Module):
    """Each entry is stretched by what stands before it, and found again by halving an interval."""

    event_shape = (2,)

    def __init__(self, low: float, high: float) -> None:
        super().__init__()
        self.low, self.high = low, high
        self.weight = nn.Parameter(torch.tensor(0.4))

    def stretched(self, x: Any, at: Any) -> Any:
        """The first entry as it is, the second by a factor of the first; and the factors."""
        slope = torch.ones_like(x)
        slope[:, 1] = torch.exp(torch.tanh(self.weight * at[:, 0]))
        return x + 0.5 * torch.tanh(x) * slope, 1 + 0.5 * slope * (1 - torch.tanh(x) ** 2)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z, slope = self.stretched(x, x)
        return z, slope.log().sum(1)

    @torch.no_grad()
    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        x = torch.zeros_like(z)
        for place in range(2):
            low, high = torch.full_like(z[:, 0], self.low), torch.full_like(z[:, 0], self.high)
            for _ in range(60):
                x[:, place] = (low + high) / 2
                under = self.stretched(x, x)[0][:, place] < z[:, place]
                low = torch.where(under, x[:, place], low)
                high = torch.where(under, high, x[:, place])
        return x


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("end", [20.0, 50.0])
def test_an_end_that_no_draw_reaches_is_not_accused(law: str, end: float) -> None:
    """Where the first entry is missed, so is the second, which depends on it."""
    assert check(Searched(-end, end), law, QUICK).status is Status.HOLDS


@pytest.mark.parametrize("ends", [(-10.0, 10.0), (0.0, 50.0)], ids=["near", "one-sided"])
def test_an_end_that_is_too_near_is_accused(ends: tuple[float, float]) -> None:
    """Points on the way there are missed as well."""
    assert check(Searched(*ends), LAWS[0], QUICK).status is Status.VIOLATED
