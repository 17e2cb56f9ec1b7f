"""Samples of two calls that have no point in common, and images outside of a declared set."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status

QUICK = Settings("quick")


class OneSided(nn.Module):
    """Far apart on two sides, of which each call of sample chooses one for all of its rows."""

    event_shape = (2,)

    def __init__(self) -> None:
        super().__init__()
        self.place = nn.Parameter(torch.tensor(9.0))

    def log_prob(self, x: Any) -> Any:
        """Of each row."""
        sides = torch.stack([-0.5 * ((x - s * self.place) ** 2).sum(1) for s in (-1.0, 1.0)])
        return sides.logsumexp(0) - math.log(2) - math.log(2 * math.pi)

    def sample(self, n: int) -> Any:
        """So many rows."""
        with torch.no_grad():
            side = 2 * torch.bernoulli(torch.tensor(0.5)) - 1
            return side * self.place + torch.randn(n, 2, dtype=self.place.dtype)


@pytest.mark.parametrize("law", ["sampling/follows-density[balance]", "sampling/follows-density"])
def test_samples_that_lie_elsewhere_each_time_are_no_error(law: str) -> None:
    """They are accused, or nothing can be said."""
    assert check(OneSided(), law, QUICK).status is not Status.ERROR


class Onto(nn.Module):
    """Softsign, onto (-1, 1)."""

    event_shape = (2,)

    def __init__(self, codomain: Any) -> None:
        super().__init__()
        self.codomain = codomain

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return x / (1 + x.abs()), -2 * torch.log1p(x.abs()).sum(1)


@pytest.mark.parametrize(
    ("codomain", "expected"),
    [
        ((-1.0, 1.0), Status.HOLDS),
        ("unit", Status.VIOLATED),
        ((-0.99, 1.0), Status.VIOLATED),
        ("real", Status.NOT_APPLICABLE),
    ],
)
def test_images_lie_in_the_codomain(codomain: Any, expected: Status) -> None:
    """Those that saturate lie on its edge."""
    assert check(Onto(codomain), "map/domain[image]", QUICK).status is expected
