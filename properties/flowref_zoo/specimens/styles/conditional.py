"""An affine coupling whose network sees a context."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class CondCoupling(nn.Module):
    r"""$z_b = x_b e^{s} + t$ with $s, t$ of $x_a$ and the context; ladj $\sum_i s_i$."""

    event_shape = (4,)
    context_shape = (3,)

    def __init__(self, d: Any, c: Any, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.d1 = d // 2
        self.net = nn.Sequential(
            nn.Linear(self.d1 + c, 24), nn.SiLU(), nn.Linear(24, 2 * (d - self.d1))
        )

    def _p(self, x1: Any, context: Any) -> Any:
        h = self.net(torch.cat([x1, context], dim=-1))
        ls, t = h.chunk(2, dim=-1)
        return 0.8 * torch.tanh(ls), t

    def forward(self, x: Any, context: Any) -> Any:
        if self.defect == "context-first":
            context = context[:1].expand(x.shape[0], -1)
        if self.defect == "context-norm":
            context = (
                (context - context.mean(0)) / (context.std(0) + 1e-05) if len(x) > 1 else context
            )
        x1, x2 = x[:, : self.d1], x[:, self.d1 :]
        ls, t = self._p(x1, context)
        z2 = x2 * ls.exp() + t
        if self.defect == "context-log-det":
            ls, _ = self._p(x1, torch.zeros_like(context))
        if self.defect == "context-cat":
            ls = t
        return torch.cat([x1, z2], -1), ls.sum(-1)

    def inverse(self, z: Any, context: Any) -> Any:
        if self.defect == "context-first":
            context = context[:1].expand(z.shape[0], -1)
        if self.defect == "context-norm":
            context = (
                (context - context.mean(0)) / (context.std(0) + 1e-05) if len(z) > 1 else context
            )
        if self.defect == "context-inverse":
            context = torch.zeros_like(context)
        if self.defect == "context-negative":
            context = context.relu()
        z1, z2 = z[:, : self.d1], z[:, self.d1 :]
        ls, t = self._p(z1, context)
        return torch.cat([z1, (z2 - t) * (-ls).exp()], -1), -ls.sum(-1)


def conditional(defect: str = "") -> Any:
    torch.manual_seed(5)
    return CondCoupling(4, 3, defect)


SPECIMENS = (
    Specimen(
        "conditional",
        {
            "context-inverse": ("map/inverse[latents]",),
            "context-log-det": ("map/log-det",),
            "context-first": ("same/rows",),
            "context-negative": ("map/inverse[latents]",),
            "context-norm": ("same/rows",),
            "context-cat": ("map/log-det",),
        },
    ),
)
