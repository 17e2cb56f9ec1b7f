"""Methods that return minus a log-density, often with constants left out: never taken, always told."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from flowref import checking
from flowref.loading import recipe_of
from flowref.model import Status
from flowref.registry import parse_target


class Normal(nn.Module):
    """A normal density by the loss that trains it."""

    def __init__(self, constant: float = 1.0) -> None:
        super().__init__()
        self.constant = constant
        self.mean, self.log_scale = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))

    def nll(self, x: Any) -> Any:
        """The mean over a batch."""
        z = (x - self.mean) / self.log_scale.exp()
        each = 0.5 * z * z + self.log_scale + self.constant * 0.5 * math.log(2 * math.pi)
        return each.sum(-1).mean()


class Map(Normal):
    """With the map to its latents."""

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        return (x - self.mean) / self.log_scale.exp(), -self.log_scale.sum().expand(len(x))


@pytest.mark.parametrize("name", ["Normal", "Map"])
@pytest.mark.parametrize(
    ("constant", "status"), [("", Status.HOLDS), ("&constant=0", Status.VIOLATED)]
)
def test_it_is_a_log_density_where_that_is_said(name: str, constant: str, status: Status) -> None:
    """With its constants."""
    target = parse_target(f"{__file__}:{name}?log_prob=nll{constant}")
    assert (
        checking.pair_verdict(target, "density/mass", checking.Settings("quick")).status is status
    )


def test_a_map_says_that_it_was_not_looked_at() -> None:
    """And how it is."""
    hints = recipe_of(parse_target(f"{__file__}:Map")).recognized.hints
    assert any("add ?log_prob=nll" in hint for hint in hints)
