"""Independent Student distributions with learned degrees of freedom."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class T(nn.Module):
    r"""$p(x) = \prod_i t_{\nu_i}((x_i - \mu_i) / \sigma_i) / \sigma_i$."""

    event_shape = (2,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.raw = nn.Parameter(torch.tensor([1.5, 2.5]))
        self.loc = nn.Parameter(torch.tensor([0.3, -1.0]))
        self.ls = nn.Parameter(torch.tensor([0.2, -0.3]))
        self.defect = defect

    @property
    def df(self) -> Any:
        return 2 + nn.functional.softplus(self.raw)

    def log_prob(self, x: Any) -> Any:
        df = self.df
        u = (x - self.loc) * (-self.ls).exp()
        lg = torch.lgamma(df + 1) / 2 if self.defect == "gamma-half" else torch.lgamma((df + 1) / 2)
        k = df if self.defect == "log" else df + 1
        lp = (
            lg
            - torch.lgamma(df / 2)
            - 0.5 * (df * math.pi).log()
            - self.ls
            - k / 2 * torch.log1p(u**2 / df)
        )
        return lp.sum(1)

    def sample(self, n: Any) -> Any:
        with torch.no_grad():
            df = self.df
            g = torch._standard_gamma((df / 2).expand(n, 2).contiguous()) * 2
            if self.defect == "shared":
                g = torch._standard_gamma((df[:1] / 2).expand(n, 1).contiguous()) * 2
            den = g if self.defect == "df-sample" else g / df
            return (
                self.loc
                + self.ls.exp() * torch.randn(n, 2, dtype=df.dtype, device=df.device) / den.sqrt()
            )


def student(defect: str = "") -> Any:
    return T(defect)


SPECIMENS = (
    Specimen(
        "student",
        {
            "gamma-half": ("density/mass",),
            "df-sample": ("sampling/follows-density[ratios]",),
            "shared": ("sampling/follows-density[ratios]",),
            "log": ("density/mass",),
        },
    ),
)
