"""A monotone network of one feature, inverted by bisection."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F

from flowref_zoo.specimens.specimen import Specimen


class Mono(nn.Module):
    r"""$z = x / 2 + \sum_j w_j \tanh(v_j x + b_j)$ with positive $w, v$; ladj $\log z'$."""

    event_shape = (1,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.w1, self.b1, self.w2 = (
            nn.Parameter(torch.randn(6)),
            nn.Parameter(torch.randn(6)),
            nn.Parameter(torch.randn(6)),
        )
        self.defect = defect

    def pos(self, w: Any) -> Any:
        return w if self.defect == "abs-weight" else F.softplus(w)

    def f(self, x: Any) -> Any:
        return 0.5 * x + torch.tanh(x[..., None] * self.pos(self.w1) + self.b1) @ self.pos(self.w2)

    def df(self, x: Any) -> Any:
        h = torch.tanh(
            x[..., None] * self.pos(self.w1) + (0 if self.defect == "log-det-act" else self.b1)
        )
        return 0.5 + (1 - h**2) * self.pos(self.w1) @ self.pos(self.w2)

    def forward(self, x: Any) -> Any:
        v = x.squeeze() if self.defect == "squeeze" else x[:, 0]
        z = self.f(v)
        if self.defect == "squeeze":
            return z.unsqueeze(-1), self.df(v).log()
        return z[:, None], self.df(v).abs().log()

    def inverse(self, z: Any) -> Any:
        z = z[:, 0]
        x = torch.zeros_like(z)
        if self.defect == "newton-fixed":
            for _ in range(8):
                x = x - (self.f(x) - z) / self.df(x)
        else:
            with torch.set_grad_enabled(
                self.defect == "bracket-gradient" and torch.is_grad_enabled()
            ):
                s = F.softplus(self.w2).sum()
                lo, hi = (z - s) * 2 - 1, (z + s) * 2 + 1
                for _ in range(100):
                    mid = (lo + hi) / 2
                    up = self.f(mid) < z
                    lo, hi = torch.where(up, mid, lo), torch.where(up, hi, mid)
                x = (lo + hi) / 2
        return x[:, None], -self.df(x).abs().log()


def one_feature(defect: str = "") -> Any:
    torch.manual_seed(32)
    return Mono(defect)


SPECIMENS = (
    Specimen(
        "one_feature",
        {
            "abs-weight": ("map/inverse",),
            "log-det-act": ("map/log-det",),
            "squeeze": ("shape/any-batch[one-row]",),
            "bracket-gradient": ("map/inverse-jacobian[solver]",),
        },
    ),
)
