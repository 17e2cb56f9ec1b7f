"""A sigmoid with a temperature per entry."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class Sigmoid(nn.Module):
    r"""$z_i = \sigma(|\tau_i| x_i)$; ladj $\sum_i \log |\tau_i| z_i (1 - z_i)$."""

    event_shape = (3,)
    codomain = "unit"

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.temp = nn.Parameter(torch.tensor([1.3, 0.7, 1.0]))

    def forward(self, x: Any) -> Any:
        u = self.temp.abs() * x
        z = u.sigmoid()
        if self.defect == "naive-log-det":
            ld = z.log() + (1 - z).log()
        elif self.defect == "epsilon":
            ld = (z + 1e-06).log() + (1 - z + 1e-06).log()
        elif self.defect == "half":
            ld = -F.softplus(-u)
        else:
            ld = -F.softplus(-u) - F.softplus(u)
        return z, (ld + self.temp.abs().log()).sum(1)

    def inverse(self, z: Any) -> Any:
        c = z.clamp(0.001, 1 - 0.001) if self.defect == "clamp-inverse" else z
        ld = (-c.log() - torch.log1p(-c) - self.temp.abs().log()).sum(1)
        return (
            c.log() - torch.log1p(-c)
        ) / self.temp.abs(), -ld if self.defect == "inverse-log-det" else ld


def sigmoid(defect: str = "") -> Any:
    return Sigmoid(defect)


SPECIMENS = (
    Specimen(
        "sigmoid",
        {
            "epsilon": ("map/log-det",),
            "clamp-inverse": ("map/inverse[latents]",),
            "inverse-log-det": ("map/log-det[inverse]",),
            "half": ("map/log-det",),
            "naive-log-det": ("map/finite-far-out[log-det]",),
        },
    ),
)
