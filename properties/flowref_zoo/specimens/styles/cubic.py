"""A cubic that returns values, and its log-det by a method of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class Cubic(nn.Module):
    r"""$y = x^3 + a x$ with $a > 0$; ladj $\sum \log(3 x^2 + a)$."""

    event_shape = (3,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.c = nn.Parameter(torch.tensor([0.5, 1.0, 2.0]))

    def a(self) -> Any:
        return self.c.abs() + 0.1

    def forward(self, x: Any) -> Any:
        return x**3 + self.a() * x

    def inverse(self, y: Any) -> Any:
        a = self.a()
        s = (a / 3).sqrt()
        if self.defect == "cubic-neg":
            d = (y**2 / 4 + a**3 / 27).sqrt()
            return (y / 2 + d) ** (1 / 3) + (y / 2 - d) ** (1 / 3)
        return 2 * s * torch.sinh(torch.asinh(y / (2 * s**3)) / 3)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        p = y if self.defect == "uses-y" else x
        v = 3 * p**2 + (1e-09 if self.defect == "derivative" else self.a())
        return v.log() if self.defect == "elementwise" else v.log().sum(-1)


def cubic(defect: str = "") -> Any:
    return Cubic(defect)


SPECIMENS = (
    Specimen(
        "cubic",
        {
            "uses-y": ("map/log-det[inverse]",),
            "cubic-neg": ("map/inverse",),
            "derivative": ("map/log-det[inverse]",),
        },
    ),
)
