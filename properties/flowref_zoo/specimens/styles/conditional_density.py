"""A normal density whose mean and scale are functions of a context."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class Cond(nn.Module):
    r"""$p(x \mid c) = N(x; m(c), e^{s(c)})$."""

    event_shape = (2,)
    context_shape = (3,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4))
        self.defect = defect

    def p(self, c: Any) -> Any:
        m, s = self.net(c).chunk(2, -1)
        return m, torch.tanh(s)

    def log_prob(self, x: Any, context: Any) -> Any:
        if self.defect == "context-mean":
            context = context.mean(0, keepdim=True).expand_as(context)
        m, s = self.p(context)
        lp = -0.5 * ((x - m) * (-s).exp()) ** 2 - 0.9189385332046727
        return (lp if self.defect == "no-ls" else lp - s).sum(-1)

    def sample(self, n: Any, context: Any) -> Any:
        c = context
        if self.defect == "sample-ctx0":
            c = torch.zeros_like(c)
        if self.defect == "abs-context":
            c = c.abs()
        m, s = self.p(c)
        return (
            m + s.exp() * torch.randn(n, *m.shape, dtype=m.dtype, device=m.device)
            if m.dim() == 1
            else m[:, None]
            + s.exp()[:, None] * torch.randn(len(m), n, 2, dtype=m.dtype, device=m.device)
        )


def conditional_density(defect: str = "") -> Any:
    torch.manual_seed(31)
    return Cond(defect)


SPECIMENS = (
    Specimen(
        "conditional_density",
        {
            "no-ls": ("density/mass",),
            "context-mean": ("same/rows",),
            "sample-ctx0": ("sampling/follows-density[ratios]",),
            "abs-context": ("sampling/follows-density[ratios]",),
        },
    ),
)
