"""Densities whose latents are parts of other shapes than their data: which call maps data to latents is
decided by the shapes.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status


class Halved(nn.Module):
    """An image of one channel, of which the left half is scaled and the right half is kept; the latents are
    both halves, each as a vector.
    """

    event_shape = (1, 2, 4)

    def __init__(self, bug: str = "") -> None:
        super().__init__()
        self.bug, self.scale = bug, nn.Parameter(torch.tensor([0.3, -0.2, 0.1, 0.4]))

    @property
    def base_dist(self) -> Any:
        """The base of every entry."""
        return torch.distributions.Normal(self.scale.new_zeros(()), 1.0)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        left, right = x[..., :2].flatten(1), x[..., 2:].flatten(1)
        return [left * self.scale.exp(), right], self.scale.sum().expand(len(x))

    def inverse(self, latents: Any) -> Any:
        """Latents to data."""
        left, right = latents
        parts = [left * (-self.scale).exp(), right]
        x = torch.cat([part.reshape(-1, 1, 2, 2) for part in parts], -1)
        return x, -self.scale.sum().expand(len(x))

    def log_prob(self, x: Any) -> Any:
        """Log-densities of points."""
        latents, ladj = self(x)
        base = sum(self.base_dist.log_prob(part).sum(1) for part in latents)
        return base - ladj if self.bug == "sign" else base + ladj


@pytest.mark.parametrize(("bug", "status"), [("", Status.HOLDS), ("sign", Status.VIOLATED)])
def test_the_density_of_latents_in_parts_is_judged(bug: str, status: Status) -> None:
    """The other call, which takes no data, is not asked."""
    verdict = check(Halved(bug), "density/change-of-variables", Settings("quick"))
    assert verdict.status is status, verdict.reason
