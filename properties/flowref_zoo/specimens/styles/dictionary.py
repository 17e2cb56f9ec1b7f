"""An elementwise map of parameters in a dictionary."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class P(nn.Module):
    r"""$z = e^{s_1} \sinh(\operatorname{arsinh} y + w)$ with $y = e^{s_0} x + t$."""

    event_shape = (4,)
    p: Any

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        ps = {
            "s0": nn.Parameter(torch.randn(4) * 0.2),
            "t0": nn.Parameter(torch.randn(4)),
            "s1": nn.Parameter(torch.randn(4) * 0.2),
            "w": nn.Parameter(torch.randn(4) * 0.1),
        }
        if defect == "plain-dict":
            self.p = ps
        elif defect == "partial":
            self.extra = {"s1": ps.pop("s1")}
            self.p = nn.ParameterDict(ps)
        else:
            self.p = nn.ParameterDict(ps)

    def get(self, k: Any) -> Any:
        return self.extra[k] if self.defect == "partial" and k == "s1" else self.p[k]

    def forward(self, x: Any) -> Any:
        g = self.get
        y = x * g("s0").exp() + g("t0")
        z = torch.sinh(torch.asinh(y) + g("w")) * g("s1").exp()
        core = torch.log(torch.cosh(torch.asinh(y) + g("w"))) - 0.5 * torch.log1p(y * y)
        s1 = 0 if self.defect == "default" else g("s1")
        return z, (core + g("s0") + s1).sum(-1)

    def inverse(self, z: Any) -> Any:
        g = self.get
        y = torch.sinh(torch.asinh(z / g("s1").exp()) - g("w"))
        x = (y - g("t0")) / g("s1" if self.defect == "key" else "s0").exp()
        return x, -self.forward(x)[1]


def dictionary(defect: str = "") -> Any:
    torch.manual_seed(26)
    return P(defect)


SPECIMENS = (
    Specimen(
        "dictionary",
        {
            "plain-dict": ("state/registered",),
            "partial": ("state/registered",),
            "key": ("map/inverse[latents]",),
            "default": ("map/log-det[inverse]",),
        },
    ),
)
