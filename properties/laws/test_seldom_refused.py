"""What is drawn once for all rows of a batch is seen where it seldom decides anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from flowref.checking import pair_verdict
from flowref.model import Status
from flowref.registry import parse_target


class Metropolis(nn.Module):
    """A random step towards a normal distribution, of which a few in a hundred are refused; ``shared``: by one
    threshold for all rows.
    """

    stochastic_forward, stochastic_inverse, bijective = True, True, False
    event_shape, codomain = (2,), "real"

    def __init__(self, shared: bool) -> None:
        super().__init__()
        self.mean, self.shared = nn.Parameter(torch.zeros(2)), shared

    def energy(self, x: Any) -> Any:
        """Minus the log-density, up to a constant."""
        return 0.5 * (x - self.mean).square().sum(1)

    def step(self, x: Any) -> tuple[Any, Any]:
        """The point after the step, and its weight."""
        proposed = x + 0.02 * torch.randn_like(x)
        rows = 1 if self.shared else len(x)
        threshold = torch.rand(rows, dtype=x.dtype).log()
        accepted = threshold < self.energy(x) - self.energy(proposed)
        z = torch.where(accepted[:, None], proposed, x)
        return z, self.energy(z) - self.energy(x)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        return self.step(x)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        return self.step(z)


def shared() -> nn.Module:
    """One threshold."""
    return Metropolis(shared=True)


def apart() -> nn.Module:
    """A threshold for each row."""
    return Metropolis(shared=False)


@pytest.mark.parametrize(("name", "status"), [("shared", Status.VIOLATED), ("apart", Status.HOLDS)])
def test_a_threshold_that_rows_share_is_seen_where_few_are_refused(
    name: str, status: Status
) -> None:
    """Of 64 rows a few calls tell too few that stay; of a thousand they do."""
    verdict = pair_verdict(
        parse_target(f"{Path(__file__)}:{name}"), "random/rows-independent[contribution]"
    )
    assert verdict.status is status, verdict.reason
