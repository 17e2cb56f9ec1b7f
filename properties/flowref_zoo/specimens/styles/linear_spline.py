"""A piecewise linear distribution function on the unit square."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class PLC(nn.Module):
    r"""$z = c_n + q_n (k x - n)$ in bin $n$ of $k$; ladj $\sum \log k q_n$."""

    event_shape = (2,)
    domain = "unit"
    codomain = "unit"

    def __init__(self, d: int = 2, k: int = 6, defect: str = "") -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.randn(d, k))
        self.k, self.defect = k, defect

    def tables(self) -> Any:
        q = self.logits.softmax(-1)
        c = torch.cat([torch.zeros_like(q[:, :1]), q.cumsum(-1)], -1)
        c = torch.cat([c[:, :-1], torch.ones_like(c[:, :1])], -1)
        return q, c

    def forward(self, x: Any) -> Any:
        q, c = self.tables()
        n = torch.floor(x * self.k).long()
        n = n.clamp(0, self.k - 1) if self.defect != "floor-neg" else n.remainder(self.k)
        r = x * self.k - n
        i = torch.arange(x.shape[1]).expand_as(n)
        y = c[i, n + 1 if self.defect == "off-bin" else n] + r * q[i, n]
        m = (
            n
            if self.defect != "pdf-wrong"
            else torch.floor(x * self.k + 0.02).long().clamp(0, self.k - 1)
        )
        p = q[i, m] if self.defect == "forget-k" else q[i, m] * self.k
        return y, p.log().sum(1)

    def inverse(self, y: Any) -> Any:
        q, c = self.tables()
        ref = (
            c[:, 1:-1]
            if self.defect != "inverse-bins"
            else torch.linspace(0, 1, self.k + 1, dtype=y.dtype, device=y.device)[1:-1]
        )
        n = (y[..., None] >= ref).sum(-1)
        i = torch.arange(y.shape[1]).expand_as(n)
        x = (n + (y - c[i, n]) / q[i, n]) / self.k
        return x, -(q[i, n] * self.k).log().sum(1)


def linear_spline(defect: str = "") -> Any:
    torch.manual_seed(7)
    return PLC(defect=defect)


SPECIMENS = (
    Specimen(
        "linear_spline",
        {
            "off-bin": ("map/inverse[latents]",),
            "forget-k": ("map/log-det",),
            "inverse-bins": ("map/inverse[latents]",),
            "pdf-wrong": ("map/log-det",),
            "floor-neg": ("map/domain[ends]",),
        },
    ),
)
