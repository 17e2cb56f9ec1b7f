"""Latents of samples, where an object has no way back: which side forward leads to is seen, or told."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status

LAW = "sampling/follows-density[clamping]"


class OneWay(nn.Module):
    """Three scaled coordinates, whose inverse raises. ``most``: where noise is cut off; ``heavy``: a
    base with more in its tails.
    """

    event_shape = (3,)

    def __init__(self, most: float = math.inf, heavy: bool = False) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor([0.3, -0.2, 0.4]))
        self.most, self.heavy = float(most), bool(heavy)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return x * self.log_scale.exp(), self.log_scale.sum().expand(len(x))

    def inverse(self, z: Any) -> Any:
        """Nothing yet."""
        raise RuntimeError(f"no way back for {len(z)} points")

    def log_prob(self, x: Any) -> Any:
        """By the base."""
        z, ladj = self(x)
        if self.heavy:
            return ladj + torch.distributions.StudentT(4.0).log_prob(z).sum(1)
        return ladj - 0.5 * (z**2).sum(1) - 1.5 * math.log(2 * math.pi)

    def sample(self, n: int) -> Any:
        """By noise."""
        noise = torch.randn(n, 3, dtype=self.log_scale.dtype)
        if self.heavy:
            noise = torch.distributions.StudentT(4.0).sample((n, 3)).to(noise)
        return noise.clamp(-self.most, self.most) * (-self.log_scale).exp()


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ("?heavy=", Status.HOLDS),
        ("?most=1.5&heavy=", Status.VIOLATED),
        ("?heavy=1", Status.NOT_APPLICABLE),
        ("?heavy=1&normalizing=forward", Status.HOLDS),
        ("?most=1.5&heavy=1&normalizing=forward", Status.VIOLATED),
    ],
    ids=["normal", "normal-cut", "untold", "told", "told-cut"],
)
def test_latents_are_known_by_their_density_or_by_word(options: str, status: Status) -> None:
    """A normal base shows which side is which; of others it can be said, and what to say is told."""
    verdict = check(f"{__file__}:OneWay{options}", LAW, Settings("quick"))
    assert verdict.status is status, verdict.reason
    assert (status is Status.NOT_APPLICABLE) == ("say ?normalizing=forward" in verdict.reason)
