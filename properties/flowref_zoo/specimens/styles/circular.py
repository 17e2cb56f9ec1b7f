"""A map of angles onto themselves, inverted by bisection."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class Circle(nn.Module):
    r"""$z = x + a (\sin(x + \phi) - \sin \phi)$ with $|a| < 1$; ladj $\sum \log(1 + a \cos(x + \phi))$."""

    event_shape = (2,)
    domain = "(0,6.283185307179586)"
    codomain = "(0,6.283185307179586)"

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.a = nn.Parameter(torch.tensor([0.4, -0.7]))
        self.ph = nn.Parameter(torch.tensor([0.3, 1.1]))
        self.defect = defect

    def amp(self) -> Any:
        return (
            1.3 * torch.tanh(self.a) / torch.tanh(self.a).abs()
            if self.defect == "neg-amp"
            else 0.8 * torch.tanh(self.a)
        )

    def raw(self, x: Any) -> Any:
        return x + self.amp() * (torch.sin(x + self.ph) - torch.sin(self.ph))

    def forward(self, x: Any) -> Any:
        y = self.raw(x)
        ph = -self.ph if self.defect == "shift-log-det" else self.ph
        return y, (1 + self.amp() * torch.cos(x + ph)).abs().log().sum(1)

    def inverse(self, y: Any) -> Any:
        lo, hi = torch.zeros_like(y), torch.full_like(y, 2 * math.pi)
        if self.defect == "newton":
            x = y
            for _ in range(3):
                x = x - (self.raw(x) - y) / (1 + self.amp() * torch.cos(x + self.ph))
        else:
            for _ in range(60):
                mid = (lo + hi) / 2
                up = self.raw(mid) < y
                lo, hi = torch.where(up, mid, lo), torch.where(up, hi, mid)
            x = (lo + hi) / 2
        if self.defect == "no-mod-inverse":
            x = x - 2 * math.pi * (x > 3).to(x.dtype)
        return x, -(1 + self.amp() * torch.cos(x + self.ph)).abs().log().sum(1)


def circular(defect: str = "") -> Any:
    return Circle(defect)


SPECIMENS = (
    Specimen(
        "circular",
        {
            "shift-log-det": ("map/log-det",),
            "no-mod-inverse": ("map/inverse[latents]",),
            "neg-amp": ("map/inverse",),
            "newton": ("map/inverse[latents]",),
        },
    ),
)
