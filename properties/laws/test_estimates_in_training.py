"""A log-det that is exact in eval mode and drawn in train mode is an estimate, and no other map's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status


class Probed(nn.Module):
    """A linear map; its log-det with random signs in train mode, or off by a number there."""

    event_shape = (2,)

    def __init__(self, draws: bool, off: float = 0.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[1.5, 0.4], [0.3, 0.9]]))
        self.draws, self.off = draws, off

    def forward(self, x: Any) -> Any:
        """There."""
        told = torch.linalg.slogdet(self.weight)[1].expand(len(x))
        if self.training and self.draws:
            told = told + 0.1 * (2.0 * torch.bernoulli(torch.full_like(x[:, 0], 0.5)) - 1)
        return x @ self.weight, told + self.off * self.training

    def inverse(self, z: Any) -> Any:
        """Back."""
        told = torch.linalg.slogdet(self.weight)[1].expand(len(z))
        return torch.linalg.solve(self.weight.T, z.T).T, -told


@pytest.mark.parametrize("law", ["same/train-mode[log-det]", "same/train-mode[first-call]"])
def test_an_estimate_in_training_is_not_accused(law: str) -> None:
    """What trains by an estimate may be exact where it is evaluated."""
    assert check(Probed(True), law, Settings("quick")).status is Status.INCONCLUSIVE


@pytest.mark.parametrize("law", ["same/train-mode[log-det]", "same/train-mode[first-call]"])
def test_another_number_in_training_is(law: str) -> None:
    """It is the same at each call."""
    assert check(Probed(False, 0.1), law, Settings("quick")).status is Status.VIOLATED
