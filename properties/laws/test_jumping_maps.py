"""Maps that jump between two orientations are one-to-one; maps that fold are not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status


class Turned(nn.Module):
    """A coupling that mirrors what it transforms where the other half is negative, or a fold."""

    event_shape = (2,)

    def __init__(self, folds: bool, inverse: bool) -> None:
        super().__init__()
        self.folds = folds
        if inverse:
            self.inverse = self.undo

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        side = torch.where(x[:, :1] < 0, -1.0, 1.0).to(x)
        a = x[:, :1].abs() if self.folds else x[:, :1]
        return torch.cat([a, x[:, 1:] if self.folds else side * x[:, 1:]], 1), x.new_zeros(len(x))

    def undo(self, z: Any) -> Any:
        """Latents to data."""
        return self.forward(z)


@pytest.mark.parametrize(
    ("folds", "inverse", "expected"),
    [
        (False, True, Status.HOLDS),
        (True, True, Status.VIOLATED),
        (True, False, Status.VIOLATED),
    ],
)
def test_a_jump_is_no_fold(folds: bool, inverse: bool, expected: Status) -> None:
    """Where the inverse brings back points of both orientations, nothing folds."""
    flow = Turned(folds, inverse)
    assert check(flow, "map/one-to-one[orientation]", Settings("quick")).status is expected
