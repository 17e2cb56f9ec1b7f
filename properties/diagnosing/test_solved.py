"""Bugs of what takes the steps of a solver, whose numbers are those of its steps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import diagnosing
from flowref.checking import Settings
from flowref.model import Status


class Solved(nn.Module):
    """A field that is followed by Euler's method, and its divergence, which may have another sign."""

    event_shape = (2,)

    def __init__(self, sign: float) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(2)
        self.weight = nn.Parameter(torch.randn(2, 2, generator=generator))
        self.sign, self.n_steps = sign, 60

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        ladj = torch.zeros_like(x[:, 0])
        for _ in range(self.n_steps):
            slope = 1 - torch.tanh(x @ self.weight) ** 2
            ladj = ladj + (slope * self.weight.diagonal()).sum(1) / self.n_steps
            x = x + torch.tanh(x @ self.weight) / self.n_steps
        return x, self.sign * ladj


@pytest.mark.parametrize(
    ("sign", "status", "words"),
    [
        (1.0, Status.INCONCLUSIVE, ""),
        (-1.0, Status.VIOLATED, "say ?ladj=inverse"),
    ],
)
def test_a_turned_sign_is_told_of_a_solver(sign: float, status: Status, words: str) -> None:
    """With what to say where the change of the log-density is meant; its steps are no bug."""
    verdict = diagnosing.check(Solved(sign), "map/log-det", Settings("quick"))
    assert verdict.status is status, verdict.reason
    assert words in verdict.diagnosis
