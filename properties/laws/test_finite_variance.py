"""A series that stops too soon for what it adds up has no finite variance, which is said."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status

LAW = "residual/finite-variance"


class Block(nn.Module):
    """x + c x turned by a quarter, whose series is estimated by a geometric number of terms."""

    event_shape, estimator = (2,), True

    def __init__(self, factor: float, stop: float, says: bool) -> None:
        super().__init__()
        self.factor, self.stop = factor, stop
        if says:
            self.geometric_stop = stop

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        turn = self.factor * torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=x.dtype)
        probe, ladj = torch.randn_like(x), torch.zeros_like(x[:, 0])
        vector = probe
        for k in range(1, 2 + int(torch.distributions.Geometric(self.stop).sample())):
            vector = vector @ turn
            ladj = ladj - (-1) ** k / k * (vector * probe).sum(1) / (1 - self.stop) ** (k - 1)
        return x + x @ turn, ladj


def block(factor: float = 0.7, stop: float = 0.5, says: bool = True) -> nn.Module:
    """With a spectral radius that is its factor."""
    return Block(factor, stop, says)


@pytest.mark.parametrize(
    ("factor", "stop", "status"),
    [
        (0.70, 0.5, Status.HOLDS),
        (0.71, 0.5, Status.ADVICE),
        (0.94, 0.1, Status.HOLDS),
        (0.95, 0.1, Status.ADVICE),
        (0.30, 0.9, Status.HOLDS),
        (0.97, 0.5, Status.ADVICE),
    ],
)
def test_the_bound_is_the_root_of_going_on(factor: float, stop: float, status: Status) -> None:
    """A spectral radius of more than that is advised against, and of less is not."""
    target = f"{__name__}:block?factor={factor}&stop={stop}"
    assert check(target, LAW, Settings("quick")).status is status


def test_what_does_not_say_when_it_stops_is_not_judged() -> None:
    """And it is said that it does not."""
    verdict = check(f"{__name__}:block?factor=0.97&says=False", LAW, Settings("quick"))
    assert verdict.status is Status.NOT_APPLICABLE
    assert "geometric_stop" in verdict.reason
