"""A Sylvester flow with an orthogonal factor by QR, forward only."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn as nn

from flowref_zoo.specimens.specimen import Specimen


class Sylvester(nn.Module):
    r"""$z = x + Q R_1 \tanh(R_2 Q^T x + b)$; ladj $\sum \log |1 + h' r_1 r_2|$."""

    event_shape = (4,)

    def __init__(self, d: int = 4, m: int = 2, defect: str = "") -> None:
        super().__init__()
        self.defect, self.m = defect, m
        self.q = nn.Parameter(torch.linalg.qr(torch.randn(d, m))[0])
        self.r1, self.r2 = nn.Parameter(torch.randn(m, m)), nn.Parameter(torch.randn(m, m))
        self.d1, self.d2 = nn.Parameter(torch.randn(m)), nn.Parameter(torch.randn(m))
        self.b = nn.Parameter(torch.randn(m))

    def above(self, r: Any) -> Any:
        if self.defect == "triangle-full":
            return r - torch.diag(r.diag())
        return r.triu(1)

    def forward(self, x: Any) -> Any:
        q = self.q if self.defect == "factor-not-orthogonal" else torch.linalg.qr(self.q)[0]
        d1, d2 = torch.tanh(self.d1), torch.tanh(self.d2)
        R1 = self.above(self.r1) + torch.diag(d1)
        R2 = self.above(self.r2) + torch.diag(d2)
        a = x @ q @ R2.T + self.b
        h = torch.tanh(a)
        z = x + h @ R1.T @ q.T
        hd = 1 - torch.tanh(a - self.b if self.defect == "bias-missing" else a) ** 2
        dd = d1 if self.defect == "diagonal-one" else d1 * d2
        return z, torch.log(torch.abs(1 + hd * dd)).sum(1)


def sylvester(defect: str = "") -> Any:
    torch.manual_seed(15)
    return Sylvester(defect=defect)


SPECIMENS = (
    Specimen(
        "sylvester",
        {
            "diagonal-one": ("map/log-det",),
            "factor-not-orthogonal": ("map/log-det",),
            "triangle-full": ("map/log-det",),
            "bias-missing": ("map/log-det",),
        },
    ),
)
