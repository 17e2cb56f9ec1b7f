"""Random layers that do not say where their latents lie: what they draw shows it, whatever they weigh."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from flowref.checking import pair_verdict
from flowref.model import Status


class Metropolis(nn.Module):
    """Two steps in a quartic potential; ``sign``: of the weight; ``stale``: a step that was refused counts
    the energy that it was refused for.
    """

    stochastic_forward = stochastic_inverse = True
    event_shape = (2,)

    def __init__(self, sign: int = 1, stale: bool = False) -> None:
        super().__init__()
        self.sign, self.stale = sign, stale

    def energy(self, x: Any) -> Any:
        """A double well along the first coordinate."""
        return (0.25 * x[:, 0] ** 2 - 1.5) * x[:, 0] ** 2 + 0.5 * x[:, 1] ** 2

    def forward(self, x: Any) -> Any:
        """Proposals that are normal around where it stands."""
        start = here = self.energy(x)
        for _ in range(2):
            proposed = x + 0.8 * torch.randn_like(x)
            there = self.energy(proposed)
            accepted = torch.rand_like(here) < (here - there).exp()
            x = torch.where(accepted[:, None], proposed, x)
            here = there if self.stale else torch.where(accepted, there, here)
        return x, self.sign * (here - start)

    inverse = forward


@pytest.mark.parametrize(
    ("options", "status"),
    [("", Status.HOLDS), ("?sign=-1", Status.VIOLATED), ("?stale=True", Status.VIOLATED)],
    ids=["right", "sign", "stale"],
)
def test_a_weight_whose_mass_is_not_known_is_judged(options: str, status: Status) -> None:
    """A few points hold most of the mass of a wrong one, which then tells nothing of latents."""
    verdict = pair_verdict(
        f"{Path(__file__)}:Metropolis{options}", "kernel/follows-contribution[balance]"
    )
    assert verdict.status is status
