"""Integrals of densities with kinks, wherever the kink lies between the nodes of a rule."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from flowref import check
from flowref.laws.common.quadrature import PANELS
from flowref.laws.density.statements import QUADRATURE_FACTOR, between, with_ends
from flowref.model import REAL, Array, Status, draw_points

MASS = "density/mass"


def density(x: Array, kink: float) -> Array:
    """Laplace's, about a kink."""
    return np.asarray(0.5 * np.exp(-np.abs(x - kink)))


def reached(x: Array, kink: float) -> Array:
    """Its distribution function."""
    tail = 0.5 * np.exp(-np.abs(x - kink))
    return np.where(x < kink, tail, 1 - tail)


@pytest.mark.parametrize("share", [1e-12, 1e-9, 1e-6, 1e-4, 1e-3, 3e-3, 0.01, 0.2, 0.5, 0.997])
@pytest.mark.parametrize("low", [-1.0, 0.3])
def test_an_integral_knows_its_error_wherever_the_kink_is(share: float, low: float) -> None:
    """Beside an end, before the first node of a rule, it is seen as well."""
    x = np.array([low, low + 0.7, low + 1.5])
    kink = low + 0.7 * share
    mass, error = between(lambda points: density(points, kink), x)
    off = np.abs(np.diff(reached(x, kink)) - mass)
    assert (off <= QUADRATURE_FACTOR * error + 1e-12).all(), (off, error)


class Kinked(nn.Module):
    """Laplace's density with two slopes."""

    event_shape = (1,)

    def __init__(self, kink: float, factor: float) -> None:
        super().__init__()
        self.kink, self.left, self.right, self.factor = kink, 0.9, 1.3, factor

    def log_prob(self, x: Any) -> Any:
        """Of each row."""
        u = x[:, 0] - self.kink
        height = math.log(self.left * self.right / (self.left + self.right) * self.factor)
        return height - torch.where(u < 0, -self.left * u, self.right * u)


def beside_a_panel(share: float, panel: int) -> float:
    """A point so much of a panel beyond the place where it begins, as points of the line place them."""
    points = draw_points(REAL, (512, 1), np.random.default_rng(0))[:, 0]
    low, middle, high = np.quantile(points, (0.1, 0.5, 0.9))
    t = -1 + 2 * (panel + share) / PANELS[1]
    return float(middle + (high - low) / 2 * t / (1 - t**2))


@pytest.mark.parametrize("share", [-0.004, -0.001, 0.001, 0.003, 0.5])
@pytest.mark.parametrize("panel", [40, 52, 61])
def test_the_mass_of_a_kinked_density_is_one(share: float, panel: int) -> None:
    """Wherever the kink lies between the panels of the quadrature."""
    verdict = check(Kinked(beside_a_panel(share, panel), 1.0), MASS)
    assert verdict.status is Status.HOLDS, verdict.evidence


@pytest.mark.parametrize("factor", [0.999, 1.001])
def test_another_mass_of_one_is_found(factor: float) -> None:
    """A thousandth is more than a kink leaves open."""
    assert check(Kinked(beside_a_panel(0.3, 50), factor), MASS).status is Status.VIOLATED


@pytest.mark.parametrize("degree", range(0, 22, 3))
def test_the_rule_with_ends_integrates_polynomials(degree: int) -> None:
    """Up to twice the number of its nodes, less three."""
    nodes, weights = with_ends(12)
    assert abs((weights * nodes**degree).sum() - (1 + (-1) ** degree) / (degree + 1)) < 1e-14
