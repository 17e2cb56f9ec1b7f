"""Bernstein polynomials with increasing coefficients, inverted by bisection."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class Bern(nn.Module):
    r"""$z = \sum_k c_k B_{k, 5}(x)$ with $c_0 = 0$ and $c_5 = 1$; ladj $\log z'$."""

    event_shape = (2,)
    domain = "unit"
    codomain = "unit"
    inverse_tolerance = 1e-09

    def __init__(self, d: int = 2, n: int = 5, defect: str = "") -> None:
        super().__init__()
        self.raw = nn.Parameter(torch.randn(d, n))
        self.n, self.defect = n, defect

    def coef(self) -> Any:
        p = self.raw.softmax(-1)
        if self.defect == "order":
            return torch.cat([torch.zeros_like(p[:, :1]), p], 1)
        c = torch.cat([torch.zeros_like(p[:, :1]), p.cumsum(-1)], 1)
        return torch.cat([c[:, :-1], torch.ones_like(c[:, :1])], 1)

    def basis(self, x: Any, n: Any, binom: Any = None) -> Any:
        k = torch.arange(n + 1, device=x.device)
        m = binom or n
        b = torch.tensor([math.comb(m, i) for i in range(n + 1)], dtype=x.dtype, device=x.device)
        return b * x[..., None] ** k * (1 - x[..., None]) ** (n - k)

    def value(self, x: Any) -> Any:
        return (self.basis(x, self.n) * self.coef()).sum(-1)

    def forward(self, x: Any) -> Any:
        c = self.coef()
        d = (c[:, 1:] - c[:, :-1]) * (1 if self.defect == "degree" else self.n)
        dy = (self.basis(x, self.n - 1, self.n if self.defect == "binom" else None) * d).sum(-1)
        return self.value(x), dy.abs().log().sum(1)

    def inverse(self, y: Any) -> Any:
        lo, hi = torch.zeros_like(y), torch.ones_like(y)
        for _ in range(20 if self.defect == "few" else 70):
            mid = (lo + hi) / 2
            up = self.value(mid) < y
            lo, hi = torch.where(up, mid, lo), torch.where(up, hi, mid)
        x = (lo + hi) / 2
        return x, -self.forward(x)[1]


def bernstein(defect: str = "") -> Any:
    torch.manual_seed(34)
    return Bern(defect=defect)


SPECIMENS = (
    Specimen(
        "bernstein",
        {
            "degree": ("map/log-det",),
            "binom": ("map/log-det",),
            "order": ("map/inverse",),
            "few": ("map/inverse[latents]",),
        },
    ),
)
