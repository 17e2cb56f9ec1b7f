"""A signed power by sinh and arcsinh."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class SignedPow(nn.Module):
    r"""$y = \sinh(k \operatorname{arsinh} x) + c$; ladj by the chain rule."""

    event_shape = (2,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.p = nn.Parameter(torch.tensor([0.3, -0.2]))
        self.c = nn.Parameter(torch.tensor([0.5, -1.0]))
        self.defect = defect

    def forward(self, x: Any) -> Any:
        k = self.p.exp()
        y = torch.sinh(k * torch.asinh(x)) + self.c
        if self.defect == "zero":
            y = torch.sinh(k * torch.asinh(x)) + self.c * torch.sign(x).abs()
        if self.defect == "big":
            y = torch.where(x.abs() > 10, k * x + self.c, y)
        ld = (self.p + torch.log(torch.cosh(k * torch.asinh(x))) - 0.5 * torch.log1p(x * x)).sum(1)
        if self.defect == "half" and len(x) > 1:
            h = len(x) // 2
            ld = torch.cat([ld[: len(x) - h], ld[:h]])
        if self.defect == "batch1" and len(x) == 1:
            return y, ld.squeeze(0)
        return y, ld

    def inverse(self, y: Any) -> Any:
        k = self.p.exp()
        x = torch.sinh(torch.asinh(y - self.c) / k)
        return x, -(
            self.p + torch.log(torch.cosh(k * torch.asinh(x))) - 0.5 * torch.log1p(x * x)
        ).sum(1)


def signed_power(defect: str = "") -> Any:
    return SignedPow(defect)


SPECIMENS = (
    Specimen(
        "signed_power",
        {
            "half": ("map/log-det",),
            "big": ("map/inverse[latents]",),
            "batch1": ("shape/one-number-per-point[log-det]",),
            "zero": ("map/inverse[latents]",),
        },
    ),
)
