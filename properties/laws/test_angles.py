"""Maps of angles that state no domain are not accused of giving the angles of one turn, and folds are
accused of what they lose.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status
from rows import first_of

LAW = "map/inverse"


class Turned(nn.Module):
    """Three angles that are turned and taken to one turn, or a bug of that."""

    event_shape = (3,)

    def __init__(self, bug: str = "") -> None:
        super().__init__()
        self.by, self.bug = nn.Parameter(torch.tensor([0.7, -2.0, 0.1])), bug

    def forward(self, x: Any) -> Any:
        """Angles to angles."""
        z = torch.remainder(x + self.by, 2 * math.pi)
        return (z - math.pi).abs() if self.bug == "folded" else z, torch.zeros(
            len(x), dtype=x.dtype
        )

    def inverse(self, z: Any) -> Any:
        """And back."""
        z = z + math.pi if self.bug == "folded" else z
        by = self.by.flip(0) if self.bug == "flipped" else self.by
        return torch.remainder(z - by, 2 * math.pi), torch.zeros(len(z), dtype=z.dtype)


@pytest.mark.parametrize(
    ("bug", "expected"),
    [("", Status.HOLDS), ("folded", Status.VIOLATED), ("flipped", Status.VIOLATED)],
)
@pytest.mark.parametrize("seed", first_of(range(3)))
def test_angles_come_back_to_one_turn(bug: str, expected: Status, seed: int) -> None:
    """Points whole turns away are no loss where no domain is declared."""
    assert check(Turned(bug), LAW, Settings("quick", seed)).status is expected
