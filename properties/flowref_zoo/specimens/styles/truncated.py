"""Normals cut off at both sides, sampled by the inverse distribution function."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


def Phi(x: Any) -> Any:
    return 0.5 * (1 + torch.erf(x / math.sqrt(2)))


class TruncNormal(nn.Module):
    r"""$p(x) \propto \prod_i N(x_i; \mu_i, \sigma_i)$ on $(-1, 2)^2$."""

    event_shape = (2,)
    domain = "(-1,2)"

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.loc = nn.Parameter(torch.tensor([0.3, -0.2]))
        self.log_sd = nn.Parameter(torch.tensor([0.1, -0.4]))
        self.defect = defect
        self.a, self.b = -1.0, 2.0

    def log_prob(self, x: Any) -> Any:
        sd = self.log_sd.exp()
        u = (x - self.loc) / sd
        lp = -0.5 * u**2 - self.log_sd - 0.5 * math.log(2 * math.pi)
        k = 1.0 if self.defect == "Z-unscaled" else sd
        if self.defect != "no-Z":
            lp = lp - (Phi((self.b - self.loc) / k) - Phi((self.a - self.loc) / k)).log()
        if self.defect != "outside":
            lp = torch.where((x >= self.a) & (x <= self.b), lp, torch.full_like(lp, -math.inf))
        return lp.sum(-1)

    @torch.no_grad()
    def sample(self, n: Any) -> Any:
        sd = self.log_sd.exp()
        if self.defect == "clamp-sample":
            return (self.loc + sd * torch.randn(n, 2, dtype=sd.dtype, device=sd.device)).clamp(
                self.a, self.b
            )
        lo, hi = Phi((self.a - self.loc) / sd), Phi((self.b - self.loc) / sd)
        if self.defect == "reject-one-side":
            lo = torch.zeros_like(lo)
        u = lo + (hi - lo) * torch.rand(n, 2, dtype=sd.dtype, device=sd.device)
        return self.loc + sd * math.sqrt(2) * torch.erfinv(2 * u - 1)


def truncated(defect: str = "") -> Any:
    return TruncNormal(defect)


SPECIMENS = (
    Specimen(
        "truncated",
        {
            "no-Z": ("density/mass",),
            "Z-unscaled": ("density/mass",),
            "reject-one-side": ("sampling/follows-density[ratios]",),
            "clamp-sample": ("sampling/follows-density[ratios]",),
            "outside": ("density/support",),
        },
    ),
)
