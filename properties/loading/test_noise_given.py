"""Log-densities that draw noise where none is given are random on purpose: estimates."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from flowref import checking
from flowref.loading import recipe_of
from flowref.model import Status
from flowref.registry import parse_target


class Dequantized(nn.Module):
    """A normal density of integers plus noise."""

    event_shape = (2,)

    def __init__(self, bug: float = 0.0) -> None:
        super().__init__()
        self.bug, self.mean = bug, nn.Parameter(torch.zeros(2))

    def log_prob(self, x: Any, u: Any = None) -> Any:
        """Of data and noise."""
        u = torch.rand_like(x) if u is None else u
        z = x + u - self.mean
        return (-0.5 * z * z - 0.5 * math.log(2 * math.pi)).sum(-1) + self.bug


class Noisy(Dequantized):
    """It draws, and takes something else."""

    def log_prob(self, x: Any, note: Any = None) -> Any:
        """Of data and noise."""
        return super().log_prob(x)


@pytest.mark.parametrize(
    ("spec", "law", "status"),
    [
        ("Dequantized", "same/history[repeat]", Status.NOT_APPLICABLE),
        ("Dequantized", "density/mass[bound]", Status.HOLDS),
        ("Dequantized?bug=0.3", "density/mass[bound]", Status.VIOLATED),
        ("Noisy", "same/history[repeat]", Status.VIOLATED),
    ],
)
def test_noise_that_may_be_given_makes_an_estimate(spec: str, law: str, status: Status) -> None:
    """Of one sample; what draws and takes none does so by a bug."""
    verdict = checking.pair_verdict(
        parse_target(f"{__file__}:{spec}"), law, checking.Settings("quick")
    )
    assert verdict.status is status


def test_the_line_says_what_is_drawn() -> None:
    """By its name."""
    said = recipe_of(parse_target(f"{__file__}:Dequantized")).recognized.conventions
    assert any("u is drawn unless given" in one for one in said)
