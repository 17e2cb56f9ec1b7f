"""A radial flow, forward only."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F

from flowref_zoo.specimens.specimen import Specimen


class Radial(nn.Module):
    r"""$z = x + \beta h (x - x_0)$ with $h = 1 / (\alpha + r)$; ladj $(D - 1) \log(1 + \beta h) + \log(1 + \beta h^2 \alpha)$."""

    event_shape = (3,)

    def __init__(self, d: int = 3, defect: str = "") -> None:
        super().__init__()
        self.x0 = nn.Parameter(torch.randn(d))
        self.log_alpha = nn.Parameter(torch.tensor(0.3))
        self.beta = nn.Parameter(torch.tensor(0.8))
        self.defect, self.d = defect, d
        if defect == "root-of-squares":
            nn.init.zeros_(self.x0)

    def forward(self, x: Any) -> Any:
        alpha = self.log_alpha.exp()
        beta = -alpha + F.softplus(self.beta)
        diff = x - self.x0
        r = (
            diff.norm().expand(len(x), 1)
            if self.defect == "squared-norm"
            else diff.norm(dim=1, keepdim=True)
        )
        if self.defect == "root-of-squares":
            r = (diff * diff).sum(1, keepdim=True).sqrt()
        h = 1 / ((self.log_alpha.abs() if self.defect == "alpha" else alpha) + r)
        hp = -h * h
        if self.defect == "alpha":
            hp = -1 / (alpha + r) ** 2
        if self.defect == "hprime":
            hp = -hp
        z = x + beta * h * diff
        n = self.d if self.defect == "dimension" else self.d - 1
        ld = n * torch.log(1 + beta * h) + torch.log(1 + beta * h + beta * hp * r)
        return z, ld.squeeze(1)


def radial(defect: str = "") -> Any:
    torch.manual_seed(14)
    return Radial(defect=defect)


SPECIMENS = (
    Specimen(
        "radial",
        {
            "dimension": ("map/log-det",),
            "hprime": ("map/log-det",),
            "squared-norm": ("map/finite[nan-row]",),
            "alpha": ("map/log-det",),
            "root-of-squares": ("gradient/finite",),
        },
    ),
)
