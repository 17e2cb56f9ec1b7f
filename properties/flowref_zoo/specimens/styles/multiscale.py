"""A density of three scales: half of the entries leave after each, with a conditional base."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class Step(nn.Module):
    r"""$z = A (e^s x + t)$ with a unit lower triangle $A$; ladj $\sum_i s_i$."""

    def __init__(self, d: Any) -> None:
        super().__init__()
        self.s, self.t = nn.Parameter(torch.randn(d) * 0.2), nn.Parameter(torch.randn(d) * 0.2)
        self.A = nn.Parameter(torch.eye(d) + 0.2 * torch.randn(d, d).tril(-1))

    def forward(self, x: Any) -> Any:
        return (x * self.s.exp() + self.t) @ self.A.tril(-1).T + (
            x * self.s.exp() + self.t
        ), self.s.sum()

    def inverse(self, z: Any) -> Any:
        L = self.A.tril(-1) + torch.eye(len(self.s), dtype=z.dtype, device=z.device)
        return (torch.linalg.solve_triangular(L, z.T, upper=False).T - self.t) * (-self.s).exp()


class MultiScale(nn.Module):
    r"""$\log p(x) = \sum_k \mathrm{ladj}_k + \log N(z_k; m_k, \sigma_k)$, with $m_k, \sigma_k$ of what goes on."""

    event_shape = (8,)
    steps: Any
    prior: Any

    def __init__(self, d: int = 8, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.steps = nn.ModuleList([Step(8), Step(4), Step(2)])
        self.prior = nn.ModuleList([nn.Linear(4, 8), nn.Linear(2, 4)])

    def base(self, z: Any, h: Any = None, i: int = 0) -> Any:
        if h is None:
            return (-0.5 * z**2 - 0.9189385332046727).sum(1)
        m, ls = self.prior[i](h).chunk(2, 1)
        c = 1.8378770664093453 if self.defect == "two-pi" else 0.9189385332046727
        ls = 0.3 * torch.tanh(ls)
        return (-0.5 * ((z - m) / ls.exp()) ** 2 - ls - c).sum(1)

    def log_prob(self, x: Any) -> Any:
        lp = 0
        for i, s in enumerate(self.steps):
            x, ld = s(x)
            if not (self.defect == "log-det-drop" and i == 2):
                lp = lp + ld
            if i < 2:
                x, z = x.chunk(2, 1)
                if self.defect != "half-base" or i == 0:
                    lp = lp + self.base(z, x, i)
        return lp + self.base(x)

    def sample(self, n: Any) -> Any:
        with torch.no_grad():
            t = 0.8 if self.defect == "temperature" else 1.0
            s = self.steps[0].s
            x = self.steps[2].inverse(t * torch.randn(n, 2, dtype=s.dtype, device=s.device))
            for i in (1, 0):
                m, ls = self.prior[i](x).chunk(2, 1)
                ls = 0.3 * torch.tanh(ls)
                sd = 1.0 if self.defect == "deviation-cond" else ls.exp()
                z = m + sd * t * torch.randn_like(m)
                x = self.steps[i].inverse(torch.cat([x, z], 1))
            return x


def multiscale(defect: str = "") -> Any:
    torch.manual_seed(17)
    return MultiScale(defect=defect)


SPECIMENS = (
    Specimen(
        "multiscale",
        {
            "half-base": ("sampling/follows-density[ratios]",),
            "log-det-drop": ("sampling/follows-density[ratios]",),
            "temperature": ("sampling/follows-density[ratios]",),
            "two-pi": ("sampling/follows-density[ratios]",),
            "deviation-cond": ("sampling/follows-density[ratios]",),
        },
    ),
)
