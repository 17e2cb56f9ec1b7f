"""Samples that lie so far out that rounding leaves nothing of their density accuse nobody."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.laws.density.consistency import share_without_density
from flowref.model import REAL, Status, Support, Undecidable

QUICK = Settings("quick")


class Stretched(nn.Module):
    """x = s sinh(k z) for normal z, with the square of x on the way back, which overflows beyond 1e154; the
    density ends at ``end``.
    """

    event_shape = (2,)

    def __init__(self, rate: float, end: float = math.inf) -> None:
        super().__init__()
        self.scale, self.rate, self.end = nn.Parameter(torch.tensor(1.0)), rate, end

    def log_prob(self, x: Any) -> Any:
        """The density of the points, zero beyond the end."""
        y = x / self.scale
        root = (1 + y * y).sqrt()
        z = torch.where(y < 0, -1.0, 1.0) * (y.abs() + root).log() / self.rate
        each = -0.5 * z * z - 0.5 * math.log(2 * math.pi) - (root * self.rate * self.scale).log()
        return torch.where(x.abs() > self.end, -math.inf, each).sum(1)

    def sample(self, n: int) -> Any:
        """Draws."""
        z = torch.randn(n, 2, dtype=self.scale.dtype)
        return self.scale * torch.sinh(self.rate * z)


LAWS = ("sampling/follows-density[balance]", "sampling/follows-density[ratios]")


@pytest.mark.parametrize("law", LAWS)
def test_samples_far_out_without_a_density_accuse_nobody(law: str) -> None:
    """Of a multi-scale flow whose weights were moved samples reached 1e60; it was accused of them."""
    assert check(Stretched(200.0), law, QUICK).status is not Status.VIOLATED


def test_those_nearby_accuse_whatever_lies_far_out() -> None:
    """Samples far out decide nothing, and excuse nothing; without enough of the others nothing is told."""
    lost, points = np.ones(100, dtype=bool), np.ones((100, 2))
    lost[5:] = False
    points[:3] = 1e60
    assert share_without_density(lost, points, REAL) == 0.05
    points[:5] = 1e60
    with pytest.raises(Undecidable, match="far out"):
        share_without_density(lost, points, REAL)


@pytest.mark.parametrize("law", LAWS)
def test_ordinary_samples_without_a_density_accuse(law: str) -> None:
    """As ever."""
    assert check(Stretched(1.0, end=3.0), law, QUICK).status is Status.VIOLATED
    assert check(Stretched(1.0), law, QUICK).status is Status.HOLDS


def test_those_that_rounding_moves_onto_an_end_are_not_those_that_are_cut_off_there() -> None:
    """Beside the former there are others as near to it as rounding tells apart."""
    lost, points = np.ones(100, dtype=bool), np.full((100, 2), 0.5)
    lost[5:] = False
    points[:5, 1] = 1.0
    assert share_without_density(lost, points, Support.parse("unit")) == 0.05
    points[5:8, 1] = 1 - 1e-9
    with pytest.raises(Undecidable, match="near an end"):
        share_without_density(lost, points, Support.parse("unit"))
