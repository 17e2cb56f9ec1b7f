"""Densities on a simplex are held to their mass and their samples, whichever volume they count by."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributions import Dirichlet

from flowref import check
from flowref.checking import Settings
from flowref.model import Status
from rows import first_of

LAW = "sampling/follows-density[simplex]"


class OnSimplex(nn.Module):
    """A Dirichlet distribution of four entries, off by a constant."""

    event_shape = (4,)
    domain = "simplex"

    def __init__(self, constant: float) -> None:
        super().__init__()
        self.raw, self.constant = nn.Parameter(torch.tensor([2.0, 0.6, 1.5, 3.0])), constant

    def log_prob(self, x: Any) -> Any:
        """Of each row."""
        return Dirichlet(self.raw.abs(), validate_args=False).log_prob(x) + self.constant

    def sample(self, n: int) -> Any:
        """So many rows."""
        with torch.no_grad():
            return Dirichlet(self.raw.abs()).sample((n,))


@pytest.mark.parametrize(
    ("constant", "expected"),
    [
        (0.0, Status.HOLDS),
        (-0.5 * math.log(4), Status.HOLDS),  # of the surface
        (0.2, Status.VIOLATED),
        (-0.4, Status.VIOLATED),
    ],
)
def test_the_mass_on_a_simplex(constant: float, expected: Status) -> None:
    """By all coordinates but one, or by the surface."""
    assert check(OnSimplex(constant), LAW, Settings("quick")).status is expected


@pytest.mark.parametrize("seed", first_of(range(3)))
@pytest.mark.parametrize("concentration", [(0.3, 0.4), (8.0, 1.0, 0.5), (1.0,) * 7])
def test_a_distribution_of_the_library_holds(concentration: tuple[float, ...], seed: int) -> None:
    """Of few and of many entries, near the corners as well."""
    obj = Dirichlet(torch.tensor(concentration))
    assert check(obj, LAW, Settings("quick", seed)).status is Status.HOLDS
