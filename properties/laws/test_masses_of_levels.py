"""Bounds of levels between two ends, as of dequantized images: their masses add up to no more than one."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status

QUICK = Settings("quick")
LAW = "density/mass[bound]"


class Dequantized(nn.Module):
    """Levels 0 to 3, to each of which noise is added; the sum, over 4, has a density on the unit square."""

    event_shape, domain, lower_bound = (2,), (0, 4), True

    def __init__(self, bug: str = "") -> None:
        super().__init__()
        self.bug, self.tilt = bug, nn.Parameter(torch.tensor([0.4, -0.3]))
        self.bend = nn.Parameter(torch.tensor(0.5))

    def tilted(self) -> Any:
        """A slope of each density 1 + a (2 y - 1), below 1."""
        return torch.tanh(self.tilt)

    def log_prob(self, x: Any) -> Any:
        """One sample of a bound: noise has the density 1 + b (2 u - 1), b by the level."""
        b = 0.8 * torch.tanh(self.bend * (x - 1.5))
        v = torch.rand_like(x)
        u = 2 * v / ((1 - b) + torch.sqrt((1 - b) ** 2 + 4 * b * v))  # its quantile
        log_q = torch.log(1 + b * (2 * u - 1)).sum(1)
        log_p = torch.log(1 + self.tilted() * (2 * (x + u) / 4 - 1)).sum(1)
        log_p = log_p if self.bug == "scale" else log_p - 2 * math.log(4)
        return log_p - log_q

    @torch.no_grad()
    def sample(self, count: int) -> Any:
        """Levels, or what they are made of."""
        a, v = self.tilted(), torch.rand(count, 2, dtype=self.bend.dtype)
        y = 4 * 2 * v / ((1 - a) + torch.sqrt((1 - a) ** 2 + 4 * a * v))
        return y if self.bug == "continuous" else y.floor()


def test_masses_of_levels_add_up() -> None:
    """Nothing was judged of such a bound."""
    assert check(Dequantized(), LAW, QUICK).status is Status.HOLDS


def test_a_missing_scale_is_accused() -> None:
    """The logarithm of the number of levels, for each entry."""
    assert check(Dequantized("scale"), LAW, QUICK).status is Status.VIOLATED


def test_what_is_not_whole_is_not_judged() -> None:
    """A bounded support has no sum."""
    assert check(Dequantized("continuous"), LAW, QUICK).status is Status.NOT_APPLICABLE
