"""An elementwise rational quadratic spline, both directions in one function."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class RQS(nn.Module):
    """The spline of Durkan et al. in $[-3, 3]$, the identity outside."""

    event_shape = (3,)

    def __init__(self, d: int = 3, k: int = 5, bound: float = 3.0, defect: str = "") -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(d, k) * 0.7)
        self.h = nn.Parameter(torch.randn(d, k) * 0.7)
        self.dv = nn.Parameter(torch.randn(d, k - 1) * 0.7)
        self.B, self.k, self.defect = bound, k, defect

    def knots(self, p: Any) -> Any:
        p = p.softmax(-1)
        p = 0.001 + p if self.defect == "min-width" else 0.001 + (1 - 0.001 * self.k) * p
        c = F.pad(p.cumsum(-1), (1, 0))
        c = 2 * self.B * c - self.B
        if self.defect != "min-width":
            c = torch.cat([c[..., :-1], torch.full_like(c[..., :1], self.B)], -1)
        return c

    def go(self, v: Any, inverse: Any) -> Any:
        W, H = self.knots(self.w), self.knots(self.h)
        d = 0.001 + F.softplus(self.dv)
        one = torch.ones_like(d[:, :1])
        if self.defect == "bound-one":
            one = 0.5 * one
        d = torch.cat([one, d, one], -1)
        inside = v.abs() <= self.B
        if self.defect == "epsilon-search":
            inside = (v >= -self.B) & (v <= self.B)
        u = v.clamp(-self.B, self.B)
        edges = H if inverse else W
        if self.defect == "bin-off" and (not inverse):
            edges = H
        n = (u[..., None] >= edges).sum(-1) - 1
        n = n.clamp(0, self.k - 1) if self.defect != "epsilon-search" else n % self.k
        i = torch.arange(v.shape[-1]).expand_as(n)
        x0, x1, y0, y1, d0, d1 = W[i, n], W[i, n + 1], H[i, n], H[i, n + 1], d[i, n], d[i, n + 1]
        w, h = x1 - x0, y1 - y0
        s = h / w
        if inverse:
            dy = u - y0
            t = d0 + d1 - 2 * s
            a = h * (s - d0) + dy * t
            b = h * d0 - dy * t
            c = -s * dy
            th = 2 * c / (-b - (b * b - 4 * a * c).clamp(min=0).sqrt())
            out = x0 + th * w
        else:
            th = (u - x0) / w
            out = y0 + h * (s * th * th + d0 * th * (1 - th)) / (
                s + (d0 + d1 - 2 * s) * th * (1 - th)
            )
        q = th * (1 - th)
        if self.defect == "inverse-log-det" and inverse:
            q = th * th
        den = s + (d0 + d1 - 2 * s) * q
        da, db = (d0, d0) if self.defect == "derivative-off" else (d0, d1)
        num = s**2 * (db * th**2 + 2 * s * q + da * (1 - th) ** 2)
        ld = num.log() - (1 if self.defect == "log-det-square" else 2) * den.log()
        if inverse:
            ld = -ld
        out = (
            torch.where(inside, out, u)
            if self.defect == "tail-clamp"
            else torch.where(inside, out, v)
        )
        if self.defect != "tail-log-det":
            ld = torch.where(inside, ld, torch.zeros_like(ld))
        return out, ld.sum(-1)

    def forward(self, x: Any) -> Any:
        return self.go(x, False)

    def inverse(self, z: Any) -> Any:
        return self.go(z, True)


def quadratic_spline(defect: str = "") -> Any:
    torch.manual_seed(6)
    return RQS(defect=defect)


SPECIMENS = (
    Specimen(
        "quadratic_spline",
        {
            "tail-clamp": ("map/one-to-one",),
            "bin-off": ("map/inverse[latents]",),
            "derivative-off": ("map/log-det[inverse]",),
            "inverse-log-det": ("map/log-det[inverse]",),
            "min-width": ("map/inverse",),
            "epsilon-search": ("map/finite",),
            "log-det-square": ("map/log-det[inverse]",),
        },
    ),
)
