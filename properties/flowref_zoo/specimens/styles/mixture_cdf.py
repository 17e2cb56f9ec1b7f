"""The distribution function of a mixture of logistics per entry, inverted by bisection."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class MixCDF(nn.Module):
    r"""$z_i = \sum_k w_k \sigma((x_i - \mu_k) / s_k)$; ladj the sum of the log-densities."""

    event_shape = (2,)
    codomain = "unit"
    inverse_tolerance = 1e-06

    def __init__(self, d: int = 2, k: int = 3, defect: str = "") -> None:
        super().__init__()
        self.logits, self.mu, self.ls = (nn.Parameter(torch.randn(d, k)) for _ in range(3))
        with torch.no_grad():
            self.ls.mul_(0.3)
            self.mu.mul_(1.5)
        self.defect = defect

    def lw(self) -> Any:
        return self.logits.log_softmax(0 if self.defect == "not-normalized" else 1)

    def forward(self, x: Any) -> Any:
        u = (x[..., None] - self.mu) * (-self.ls).exp()
        cdf = (self.lw().exp() * u.sigmoid()).sum(-1)
        lp = -F.softplus(u) - F.softplus(-u) - (0 if self.defect == "pdf-scale" else self.ls)
        ld = (
            (self.lw().exp() * lp).sum(-1)
            if self.defect == "log-det-mean"
            else torch.logsumexp(self.lw() + lp, -1)
        )
        return cdf, ld.sum(-1)

    def inverse(self, z: Any) -> Any:
        r = 5.0 if self.defect == "bisection-range" else 200.0
        lo, hi = torch.full_like(z, -r), torch.full_like(z, r)
        for _ in range(12 if self.defect == "bisection-few" else 80):
            mid = (lo + hi) / 2
            up = self.forward_cdf(mid) < z
            lo, hi = torch.where(up, mid, lo), torch.where(up, hi, mid)
        x = (lo + hi) / 2
        return x, -self(x)[1]

    def forward_cdf(self, x: Any) -> Any:
        return (self.lw().exp() * ((x[..., None] - self.mu) * (-self.ls).exp()).sigmoid()).sum(-1)


def mixture_cdf(defect: str = "") -> Any:
    torch.manual_seed(18)
    return MixCDF(defect=defect)


SPECIMENS = (
    Specimen(
        "mixture_cdf",
        {
            "pdf-scale": ("map/log-det",),
            "not-normalized": ("map/inverse[latents]",),
            "bisection-few": ("map/inverse",),
            "bisection-range": ("map/inverse",),
            "log-det-mean": ("map/log-det",),
        },
    ),
)
