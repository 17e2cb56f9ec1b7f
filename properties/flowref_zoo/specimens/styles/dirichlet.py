"""A Dirichlet distribution with trained concentrations."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class Dirichlet(nn.Module):
    r"""$\log p(x) = \log\Gamma(\sum_i a_i) - \sum_i \log\Gamma(a_i) + \sum_i (a_i - 1) \log x_i$."""

    event_shape = (3,)
    domain = "simplex"

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.raw = nn.Parameter(torch.tensor([0.5, 1.0, 0.2]))

    def concentration(self) -> Any:
        return self.raw.exp() + 1

    def log_prob(self, x: Any) -> Any:
        a = self.concentration()
        normalizer = torch.lgamma(a.sum()) - torch.lgamma(a).sum()
        if self.defect == "normalizer":
            normalizer = -torch.lgamma(a).sum()
        power = a if self.defect == "power" else a - 1
        return normalizer + (power * x.log()).sum(1)

    def sample(self, n: int) -> Any:
        with torch.no_grad():
            a = self.raw.exp() if self.defect == "sample-concentration" else self.concentration()
            g = torch._standard_gamma(a.expand(n, 3).contiguous())
            return g / g.sum(1, keepdim=True)


def dirichlet(defect: str = "") -> Any:
    return Dirichlet(defect)


SPECIMENS = (
    Specimen(
        "dirichlet",
        {
            "normalizer": ("sampling/follows-density[simplex]",),
            "power": ("sampling/follows-density[simplex]",),
            "sample-concentration": ("sampling/follows-density[simplex]",),
        },
    ),
)
