"""A point that is no number alone is accused where its neighbors are none either, and not where
rounding alone decides what overflows.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import checking
from flowref.checking import Settings
from flowref.model import Status


class Scaled(nn.Module):
    """A scaling."""

    event_shape = (3,)

    def __init__(self) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(3))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        y = torch.where(self.overflows(x), torch.inf, x * self.log_scale.exp())
        return y, self.log_scale.sum().expand(len(x))

    def overflows(self, x: Any) -> Any:
        """Which entries do."""
        return torch.zeros_like(x, dtype=torch.bool)


class Rough(Scaled):
    """The last digits decide what overflows, and a batch of one is rounded otherwise."""

    def overflows(self, x: Any) -> Any:
        """Those of which the last digits are unlucky."""
        rounded = x * (1 + 2.0**-50) if len(x) == 1 else x
        return torch.sin(rounded * 2.0**52) > 0.6


class Spread(Scaled):
    """The deviation of one point is no number."""

    def overflows(self, x: Any) -> Any:
        """All where there is no deviation."""
        return x.std(0).isnan().expand(x.shape)


@pytest.mark.parametrize(
    ("kind", "status"),
    [(Scaled, Status.HOLDS), (Rough, Status.HOLDS), (Spread, Status.VIOLATED)],
)
def test_rounding_alone_accuses_nobody(kind: type[Scaled], status: Status) -> None:
    """What a few roundings undo is no fault of a batch of one; what they do not is."""
    assert (
        checking.pair_verdict(kind().double(), "shape/any-batch[one-row]", Settings("quick")).status
        is status
    )
