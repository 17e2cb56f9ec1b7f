"""A multivariate normal by its Cholesky factor."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class MVN(nn.Module):
    """$p(x) = N(x; m, L L^T)$ with diagonal $e^d$ of $L$."""

    event_shape = (3,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.m = nn.Parameter(torch.randn(3))
        self.low = nn.Parameter(torch.randn(3, 3) * 0.5)
        self.d = nn.Parameter(torch.randn(3) * 0.3)
        self.defect = defect

    def L(self, soft: bool = False) -> Any:
        return self.low.tril(-1) + torch.diag(
            nn.functional.softplus(self.d) if soft else self.d.exp()
        )

    def log_prob(self, x: Any) -> Any:
        L = self.L()
        u = torch.linalg.solve_triangular(
            L.T if self.defect == "upper" else L, (x - self.m).T, upper=self.defect == "upper"
        ).T
        c: Any = 1.5 * math.log(2 * math.pi)
        if self.defect == "float-constant":
            c = torch.tensor(c, dtype=torch.float32).to(x.dtype)
        k = 0.5 if self.defect == "half-logdet" else 1
        return -0.5 * (u * u).sum(1) - k * self.d.sum() - c

    def sample(self, n: Any) -> Any:
        with torch.no_grad():
            width = 1 if self.defect == "shared-noise" else 3
            e = torch.randn(n, width, dtype=self.m.dtype, device=self.m.device).expand(n, 3)
            return self.m + e @ self.L(self.defect == "diagonal-softplus-sample").T


def cholesky(defect: str = "") -> Any:
    torch.manual_seed(36)
    return MVN(defect)


SPECIMENS = (
    Specimen(
        "cholesky",
        {
            "half-logdet": ("sampling/follows-density[ratios]",),
            "upper": ("sampling/follows-density[ratios]",),
            "diagonal-softplus-sample": ("sampling/follows-density[ratios]",),
            "shared-noise": ("sampling/follows-density[ratios]",),
        },
    ),
)
