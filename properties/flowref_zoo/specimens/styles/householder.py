"""A linear map as Householder reflections after an upper triangle."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


def reflect(x: Any, v: Any, defect: str) -> Any:
    n = (v * v).sum()
    if defect == "no-norm":
        n = torch.ones_like(n)
    if defect == "one-vector":
        n = n.sqrt()
    if defect == "epsilon-norm":
        n = n + 0.001
    return x - 2 * (x @ v)[:, None] * v / n


class QR(nn.Module):
    r"""$z = H_3 H_2 H_1 R x$ with $H = 1 - 2 v v^T / |v|^2$ and diagonal $e^d$ of $R$; ladj $\sum_i d_i$."""

    event_shape = (6,)

    def __init__(self, d: int = 6, k: int = 3, defect: str = "") -> None:
        super().__init__()
        self.v = nn.Parameter(torch.randn(k, d))
        self.r = nn.Parameter(0.2 * torch.randn(d, d))
        self.logd = nn.Parameter(0.3 * torch.randn(d))
        self.defect = defect

    def R(self, exp: bool = True) -> Any:
        return self.r.triu(1) + torch.diag(self.logd.exp() if exp else 1 + self.logd)

    def forward(self, x: Any) -> Any:
        x = x @ self.R().T
        for v in self.v:
            x = reflect(x, v, self.defect)
        return x, self.logd.sum() * x.new_ones(x.shape[0])

    def inverse(self, z: Any) -> Any:
        for v in self.v if self.defect == "factor-order" else self.v.flip(0):
            z = reflect(z, v, self.defect)
        x = torch.linalg.solve_triangular(
            self.R(self.defect != "triangle-diagonal"), z.T, upper=True
        ).T
        return x, -self.logd.sum() * z.new_ones(z.shape[0])


def householder(defect: str = "") -> Any:
    torch.manual_seed(11)
    return QR(defect=defect)


SPECIMENS = (
    Specimen(
        "householder",
        {
            "no-norm": ("map/inverse[latents]",),
            "factor-order": ("map/inverse[latents]",),
            "triangle-diagonal": ("map/inverse[latents]",),
            "one-vector": ("map/inverse[latents]",),
            "epsilon-norm": ("map/inverse[latents]",),
        },
    ),
)
