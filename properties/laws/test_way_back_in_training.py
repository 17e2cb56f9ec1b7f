"""The way back in train mode: advice where dropout or running statistics make it another map's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status

LAW = "map/inverse[last-call]"


class Coupled(nn.Module):
    """A shift of one half by a network of the other, with dropout or batch norm in it."""

    event_shape = (4,)

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
        self.norm, self.kind = nn.BatchNorm1d(2), kind

    def shift(self, kept: Any) -> Any:
        """What is added."""
        moved = self.net(kept)
        if self.kind == "dropout":
            return F.dropout(moved, 0.3, self.training)
        return self.norm(moved) if self.kind == "batch norm" else moved

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        kept, moved = x.chunk(2, 1)
        return torch.cat([kept, moved + self.shift(kept)], 1), x.new_zeros(len(x))

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        if self.kind == "refused" and self.training:
            raise RuntimeError("in eval mode only")
        kept, moved = z.chunk(2, 1)
        return torch.cat([kept, moved - self.shift(kept)], 1), z.new_zeros(len(z))


class Single(Coupled):
    """The same in single precision alone."""

    def shift(self, kept: Any) -> Any:
        """What is added."""
        return super().shift(kept.float())


@pytest.mark.parametrize(("kind", "expected"), [("", Status.HOLDS), ("dropout", Status.ADVICE)])
def test_single_precision_brings_points_back_as_well(kind: str, expected: Status) -> None:
    """What runs in that alone comes back as near as that is."""
    assert check(Single(kind), LAW, Settings("quick")).status is expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("", Status.HOLDS),
        ("batch norm", Status.HOLDS),  # both ways see the same half of the same batch
        ("dropout", Status.ADVICE),
        ("refused", Status.NOT_APPLICABLE),
    ],
)
def test_the_way_back_in_training(kind: str, expected: Status) -> None:
    """A conditioner that draws is told, one that normalizes what both directions have is not."""
    assert check(Coupled(kind), LAW, Settings("quick")).status is expected
