"""A coupling that cuts an odd number of features in two and scales by a sigmoid."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F

from flowref_zoo.specimens.specimen import Specimen


class Coupling(nn.Module):
    r"""$z_b = \sigma(s(x_a) + 2) x_b + t(x_a)$; ladj $\sum \log \sigma(s + 2)$."""

    event_shape = (5,)

    def __init__(self, dim: Any, hidden: int = 12, defect: str = "") -> None:
        super().__init__()
        self.k = dim // 2
        self.defect = defect
        out = dim - self.k
        layers = [nn.Linear(self.k, hidden), nn.ReLU()]
        if defect == "batchnorm-net":
            layers.append(nn.BatchNorm1d(hidden))
        layers.append(nn.Linear(hidden, 2 * out))
        self.net = nn.Sequential(*layers)

    def params(self, a: Any) -> Any:
        h = self.net(a)
        if self.defect == "train-dropout":
            h = F.dropout(h, 0.1, self.training)
        s, t = h.chunk(2, -1)
        if self.defect == "softplus-epsilon":
            return F.softplus(s), t
        return torch.sigmoid(s + 2.0), t

    def forward(self, x: Any) -> Any:
        a, b = x[:, : self.k], x[:, self.k :]
        s, t = self.params(a)
        if self.defect == "softplus-epsilon":
            s = s + 0.0001
        ld = s.log()
        if self.defect == "sigmoid-bias":
            ld = F.logsigmoid(self.net(a).chunk(2, -1)[0])
        if self.defect == "odd-drop" and x.shape[1] % 2:
            ld = ld[:, :-1]
        return torch.cat([a, b * s + t], 1), ld.sum(-1)

    def inverse(self, y: Any) -> Any:
        a, b = y[:, : self.k], y[:, self.k :]
        s, t = self.params(a)
        x = (b - t) / s
        if self.defect == "odd-pass" and y.shape[1] % 2:
            x = torch.cat([x[:, :-1], (b - t)[:, -1:]], 1)
        parts = [x, a] if self.defect == "swap-halves" else [a, x]
        return torch.cat(parts, 1), -s.log().sum(-1)


def odd_split(defect: str = "") -> Any:
    torch.manual_seed(3)
    return Coupling(5, defect=defect)


SPECIMENS = (
    Specimen(
        "odd_split",
        {
            "odd-drop": ("map/log-det",),
            "odd-pass": ("map/inverse[latents]",),
            "sigmoid-bias": ("map/log-det",),
            "swap-halves": ("map/inverse[latents]",),
            "softplus-epsilon": ("map/inverse[latents]",),
            "train-dropout": ("map/inverse[last-call]",),
        },
    ),
)
