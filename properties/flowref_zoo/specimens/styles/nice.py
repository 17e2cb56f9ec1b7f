"""Additive couplings of even and odd entries with a diagonal scale at the end."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class NICE(nn.Module):
    r"""$b \leftarrow b + n(a)$ and $a \leftarrow a + n(b)$ in turn, then $z = e^c x$; ladj $\sum_i c_i$."""

    event_shape = (8,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.nets = nn.ModuleList(
            [nn.Sequential(nn.Linear(4, 20), nn.LeakyReLU(0.1), nn.Linear(20, 4)) for _ in range(3)]
        )
        self.scale = nn.Parameter(torch.linspace(-0.4, 0.5, 8))

    def forward(self, x: Any) -> Any:
        a, b = x[:, ::2], x[:, 1::2]
        for i, n in enumerate(self.nets):
            if i % 2 == 0:
                b = b + n(a)
            else:
                a = a - n(b) if self.defect == "sign-add" else a + n(b)
        z = torch.stack([a, b], -1).flatten(1) * self.scale.exp()
        ld = self.scale.sum()
        if self.defect == "no-scale-log-det":
            ld = ld * 0
        if self.defect == "log-det-float":
            ld = torch.tensor(ld.item(), dtype=x.dtype, device=x.device)
        if self.defect == "log-det-batch":
            ld = ld * len(x)
        return z, ld.expand(len(x))

    def inverse(self, z: Any) -> Any:
        z = z / self.scale.exp()
        a, b = z[:, ::2], z[:, 1::2]
        if self.defect == "mod-parity":
            a, b = z[:, :4], z[:, 4:]
        for i, n in reversed(list(enumerate(self.nets))):
            if i % 2 == 0:
                b = b - n(a)
            else:
                a = a - n(b)
        return torch.stack([a, b], -1).flatten(1), -self.scale.sum().expand(len(z))


def nice(defect: str = "") -> Any:
    torch.manual_seed(4)
    return NICE(defect)


SPECIMENS = (
    Specimen(
        "nice",
        {
            "no-scale-log-det": ("map/log-det",),
            "sign-add": ("map/inverse[latents]",),
            "mod-parity": ("map/inverse[latents]",),
            "log-det-batch": ("map/log-det",),
            "log-det-float": ("gradient/parameters[log-det]",),
        },
    ),
)
