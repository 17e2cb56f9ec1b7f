"""The power transform of Yeo and Johnson with learned exponents."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class YeoJohnson(nn.Module):
    r"""$z = ((1 + x)^\lambda - 1) / \lambda$ for $x \ge 0$, $-((1 - x)^{2 - \lambda} - 1) / (2 - \lambda)$ below."""

    event_shape = (2,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.raw = nn.Parameter(torch.tensor([0.3, -0.4]))
        self.defect = defect

    @property
    def lam(self) -> Any:
        return 1 + 0.8 * torch.tanh(self.raw)

    def forward(self, x: Any) -> Any:
        term = self.lam
        if self.defect == "where-nan":
            pos = ((1 + x) ** term - 1) / term
            neg = -((1 - x) ** (2 - term) - 1) / (2 - term)
        elif self.defect == "no-log1p":
            pos = ((1 + x.clamp(min=0)) ** term - 1) / term
            neg = -((1 + (-x).clamp(min=0)) ** (2 - term) - 1) / (2 - term)
        else:
            pos = torch.expm1(term * torch.log1p(x.clamp(min=0))) / term
            neg = -torch.expm1((2 - term) * torch.log1p((-x).clamp(min=0))) / (2 - term)
        y = torch.where(x >= 0, pos, neg)
        if self.defect == "boundary":
            y = torch.where(x == 0, torch.full_like(y, 7.0), y)
        e = torch.where(x >= 0, term - 1, term - 1 if self.defect == "neg-power" else 1 - term)
        return y, (e * torch.log1p(x.abs())).sum(1)

    def inverse(self, y: Any) -> Any:
        term = self.lam
        pos = torch.expm1(torch.log1p(term * y.clamp(min=0)) / term)
        neg = torch.expm1(torch.log1p((2 - term) * (-y).clamp(min=0)) / (2 - term))
        x = torch.where(y >= 0, pos, neg if self.defect == "inverse-neg" else -neg)
        e = torch.where(x >= 0, term - 1, 1 - term)
        return x, -(e * torch.log1p(x.abs())).sum(1)


def yeo_johnson(defect: str = "") -> Any:
    return YeoJohnson(defect)


SPECIMENS = (
    Specimen(
        "yeo_johnson",
        {
            "neg-power": ("map/log-det",),
            "inverse-neg": ("map/inverse[latents]",),
            "where-nan": ("gradient/finite",),
            "boundary": ("map/inverse[latents]",),
        },
    ),
)
