"""One step of Glow in one module: activation normalization, 1x1 convolution, coupling."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F

from flowref_zoo.specimens.specimen import Specimen


class Step(nn.Module):
    r"""$x \leftarrow e^c (x + b)$, $x \leftarrow W x$, $x_b \leftarrow (x_b + t) \sigma(s + 2)$."""

    event_shape = (4, 2, 2)

    def __init__(self, c: int = 4, defect: str = "") -> None:
        super().__init__()
        self.logs, self.b = (
            nn.Parameter(torch.randn(1, c, 1, 1) * 0.2),
            nn.Parameter(torch.randn(1, c, 1, 1)),
        )
        self.W = nn.Parameter(torch.linalg.qr(torch.randn(c, c))[0])
        self.c1, self.c2 = nn.Conv2d(c // 2, 8, 3, padding=1), nn.Conv2d(8, c, 3, padding=1)
        self.defect = defect
        if defect == "zero-conv":
            nn.init.zeros_(self.c2.weight)
            self.c2.bias = nn.Parameter(torch.zeros(c))

    def coup(self, a: Any) -> Any:
        s, t = self.c2(F.relu(self.c1(a))).chunk(2, 1)
        return s, t

    def forward(self, x: Any) -> Any:
        hw = x.shape[2] * x.shape[3]
        x = (x + self.b) * self.logs.exp()
        ld = self.logs.sum() * hw
        x = torch.einsum("ij,bjhw->bihw", self.W, x)
        ld = ld + torch.linalg.slogdet(self.W)[1] * (1 if self.defect == "log-det-conv" else hw)
        a, b = x.chunk(2, 1)
        s, t = self.coup(a)
        if self.defect == "zero-conv":
            ls = torch.tanh(s)
            return torch.cat([a, (b + t) * ls.exp()], 1), ld + s.sum((1, 2, 3))
        k = torch.sigmoid(s + 2)
        term = k.log().sum((1, 2, 3))
        if self.defect == "flat":
            term = k.log().reshape(-1, len(x)).sum(0)
        return torch.cat([a, (b + t) * k], 1), ld + term

    def inverse(self, z: Any) -> Any:
        hw = z.shape[2] * z.shape[3]
        a, b = z.chunk(2, 1)
        s, t = self.coup(a)
        k = (
            torch.tanh(s).exp()
            if self.defect == "zero-conv"
            else torch.sigmoid(s) + 2
            if self.defect == "sigmoid"
            else torch.sigmoid(s + 2)
        )
        x = torch.cat([a, b / k - t], 1)
        W = self.W.inverse()
        if self.defect == "order":
            x = x * (-self.logs).exp() - self.b
            x = torch.einsum("ij,bjhw->bihw", W, x)
        else:
            x = torch.einsum("ij,bjhw->bihw", W, x)
            x = x * (-self.logs).exp() - self.b
        ld = -k.log().sum((1, 2, 3)) - torch.linalg.slogdet(self.W)[1] * hw
        if self.defect != "log-det-act":
            ld = ld - self.logs.sum() * hw
        return x, ld


def glow_step(defect: str = "") -> Any:
    torch.manual_seed(38)
    return Step(defect=defect)


SPECIMENS = (
    Specimen(
        "glow_step",
        {
            "log-det-conv": ("map/log-det",),
            "log-det-act": ("map/log-det[inverse]",),
            "order": ("map/inverse[latents]",),
            "sigmoid": ("map/inverse[latents]",),
            "zero-conv": ("map/log-det",),
            "flat": ("map/log-det",),
        },
    ),
)
