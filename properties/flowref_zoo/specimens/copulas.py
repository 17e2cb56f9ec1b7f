"""A copula, whose log-density takes the entries of a point one by one."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class FarlieCopula(nn.Module):
    r"""$c(u, v) = 1 + \theta\,(1 - 2u)(1 - 2v)$ on the unit square, $|\theta| < 1$ (Farlie, Gumbel and Morgenstern)."""

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.raw, self.defect = nn.Parameter(torch.tensor(0.9)), defect

    @property
    def theta(self) -> Any:
        """The dependence."""
        return self.raw.tanh()

    def log_pdf(self, u: Any, v: Any) -> Any:
        """The log of the density of pairs; -inf outside the square."""
        inside = (u > 0) & (u < 1) & (v > 0) & (v < 1)
        told = torch.log1p(self.theta * (1 - 2 * u) * (1 - 2 * v))
        return told.masked_fill(~inside, -torch.inf)

    def sample(self, n: int) -> Any:
        """Pairs, the second by the inverse of its distribution given the first."""
        u, w = torch.rand(n, 2, dtype=self.raw.dtype, device=self.raw.device).unbind(1)
        a = self.theta * (1 - 2 * u)
        if self.defect == "first-mirrored":
            a = -a
        return torch.stack([u, 2 * w / (1 + a + ((1 + a) ** 2 - 4 * a * w).sqrt())], 1)


def farlie(defect: str = "") -> nn.Module:
    """A copula of two."""
    return FarlieCopula(defect)


SPECIMENS = (
    Specimen(
        "farlie",
        {
            "first-mirrored": ("sampling/follows-density[balance]",),
        },
    ),
)
