"""Couplings that are put together from functions which hold the object's own parts."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class Enclosed(nn.Module):
    r"""$z_a = x_a$, $z_b = x_b \odot e^{s(x_a)} + t(x_a)$, where s and t are lambdas of its nets."""

    event_shape = (4,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4))
        self.log_scale: Any = lambda a: torch.tanh(self.net(a)[:, :2])
        self.shift: Any = partial(lambda net, a: net(a)[:, 2:], self.net)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        a, b = x.chunk(2, -1)
        s = self.log_scale(a)
        ladj = s[:, 1:].sum(-1) if self.defect == "log-det-first-missing" else s.sum(-1)
        return torch.cat([a, b * s.exp() + self.shift(a)], -1), ladj

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        a, b = z.chunk(2, -1)
        s = self.log_scale(a)
        x = (b - self.shift(a)) * (-s).exp()
        if self.defect == "inverse-scale-sign":
            x = (b - self.shift(a)) * s.exp()
        return torch.cat([a, x], -1), -s.sum(-1)


def enclosed(defect: str = "") -> nn.Module:
    """A coupling whose scale is a lambda of its net."""
    return Enclosed(defect=defect)


SPECIMENS = (
    Specimen(
        "enclosed",
        {
            "log-det-first-missing": ("map/log-det",),
            "inverse-scale-sign": ("map/inverse",),
        },
    ),
)
