"""A map that records nothing beside a log-density that does is meant so, and a detached log-density is not."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from flowref import checking
from flowref.model import Status


class Alone(nn.Module):
    """x -> e^s x + t under no_grad, of two numbers."""

    event_shape = (2,)

    def __init__(self, detached: bool = False) -> None:
        super().__init__()
        self.s = nn.Parameter(torch.tensor([0.3, -0.2]))
        self.t = nn.Parameter(torch.tensor([0.5, 1.0]))
        self.detached = detached

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        with torch.no_grad():
            return x * self.s.exp() + self.t


class Dense(Alone):
    """The same with its log-density, of which a part may be detached."""

    def log_prob(self, x: Any) -> Any:
        """Log-densities of points."""
        s = self.s.detach() if self.detached else self.s
        z = x * s.exp() + self.t
        return (self.s - 0.5 * z**2 - 0.5 * math.log(2 * math.pi)).sum(-1)


@pytest.mark.parametrize(
    ("flow", "status"),
    [(Dense(), Status.HOLDS), (Dense(True), Status.VIOLATED), (Alone(), Status.VIOLATED)],
)
def test_a_map_beside_a_density_need_record_nothing(flow: Any, status: Status) -> None:
    """Its parameters are trained by the density; what is trained by the map has to record."""
    verdict = checking.pair_verdict(flow, "gradient/parameters[value]", checking.Settings("quick"))
    assert verdict.status is status, verdict.reason
