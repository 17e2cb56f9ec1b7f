"""The constant of a normal density is read off its values; of what is none, nothing is said."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status

LAW = "density/base-constant[quadratic-form]"


class Quadratic(nn.Module):
    """A normal density in three dimensions, and what departs from one."""

    event_shape = (3,)

    def __init__(self, constant: float = 0.0, bend: float = 0.0, freedom: float = 0.0) -> None:
        super().__init__()
        self.lower = nn.Parameter(torch.tensor([[1.5, 0, 0], [0.4, 0.6, 0], [-0.3, 0.8, 2.0]]))
        self.middle = nn.Parameter(torch.tensor([0.3, -2.0, 5.0]))
        self.constant, self.bend, self.freedom = constant, bend, freedom

    def log_prob(self, x: Any) -> Any:
        """Of each row."""
        factor = self.lower.tril()
        u = torch.linalg.solve_triangular(factor, (x - self.middle).T, upper=False).T
        u = u + self.bend * torch.sin(u)
        scale = factor.diagonal().abs().log().sum()
        if self.freedom:
            return torch.distributions.StudentT(self.freedom).log_prob(u).sum(1) - scale
        return -0.5 * (u * u).sum(1) - scale - 1.5 * math.log(2 * math.pi) + self.constant


def verdict(**details: float) -> Status:
    """Of a density that departs from the normal one so."""
    return check(Quadratic(**details), LAW, Settings("quick")).status


def test_the_constant_of_a_normal_density_is_right() -> None:
    """Whatever its mean and covariance are."""
    assert verdict() is Status.HOLDS


@pytest.mark.parametrize("constant", [1e-8, -1e-3, 1.5])
def test_another_constant_is_wrong(constant: float) -> None:
    """A hundred-millionth is seen."""
    assert verdict(constant=constant) is Status.VIOLATED


@pytest.mark.parametrize("bend", [1e-12, 1e-10, 1e-8, 1e-4])
def test_a_nearly_normal_density_is_not_accused(bend: float) -> None:
    """What is bent by a little has another constant by as little."""
    assert verdict(bend=bend) is not Status.VIOLATED


@pytest.mark.parametrize("freedom", [3.0, 1e6, 1e10, 1e13])
def test_heavier_tails_are_not_accused(freedom: float) -> None:
    """Nor what is nearly normal where most of its mass is, and not far out."""
    assert verdict(freedom=freedom) is not Status.VIOLATED
