"""A planar flow, forward only."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F

from flowref_zoo.specimens.specimen import Specimen


class Planar(nn.Module):
    r"""$z = x + u \tanh(w^T x + b)$, $u$ such that $w^T u > -1$; ladj $\log |1 + (1 - \tanh^2) w^T u|$."""

    event_shape = (2,)

    def __init__(self, d: int = 2, defect: str = "") -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(d))
        self.u = nn.Parameter(torch.randn(d))
        self.b = nn.Parameter(torch.randn(1))
        self.defect = defect
        if defect == "no-constraint":
            self.u.data = -2.5 * self.w.data

    def forward(self, x: Any) -> Any:
        u: Any = self.u
        if self.defect != "no-constraint":
            wu = self.w @ self.u
            u = self.u + (-1 + F.softplus(wu) - wu) * self.w / (self.w @ self.w)
        a = x @ self.w + self.b
        z = x + u * torch.tanh(a)[:, None]
        g = torch.tanh(x @ self.w) if self.defect == "b-gradient" else torch.tanh(a)
        d = 1 - g if self.defect == "tanh-derivative" else 1 - g**2
        det = 1 + d * (self.w @ (self.u if self.defect == "u-raw" else u))
        if self.defect == "no-abs":
            return z, (det - 1.2).log()
        if self.defect == "epsilon":
            return z, (det.abs() + 0.01).log()
        return z, det.abs().log()


def planar(defect: str = "") -> Any:
    torch.manual_seed(13)
    return Planar(defect=defect)


SPECIMENS = (
    Specimen(
        "planar",
        {
            "no-constraint": ("map/one-to-one[orientation]",),
            "tanh-derivative": ("map/log-det",),
            "no-abs": ("map/log-det",),
            "epsilon": ("map/log-det",),
            "b-gradient": ("map/log-det",),
            "u-raw": ("map/log-det",),
        },
    ),
)
