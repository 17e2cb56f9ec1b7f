"""An autoregressive flow with a network per feature, forward and inverse as loops."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class IAF(nn.Module):
    r"""$z_i = x_i e^{s_i(x_{<i})} + t_i(x_{<i})$; ladj $\sum_i s_i$."""

    event_shape = (3,)

    def __init__(self, d: int = 3, defect: str = "") -> None:
        super().__init__()
        self.d, self.defect = d, defect
        self.nets = nn.ModuleList(
            [nn.Sequential(nn.Linear(i, 8), nn.ELU(), nn.Linear(8, 2)) for i in range(1, d)]
        )
        first = torch.tensor([0.2, -0.3], dtype=torch.get_default_dtype())
        if defect == "first-param":
            self.first = first.requires_grad_()
        else:
            self.first = nn.Parameter(first)

    def p(self, i: Any, prefix: Any, clamp: Any) -> Any:
        h = self.first.expand(len(prefix), 2) if i == 0 else self.nets[i - 1](prefix)
        s, t = h[:, 0], h[:, 1]
        if clamp:
            s = s.clamp(-1, 1)
        return s, t

    def forward(self, x: Any) -> Any:
        out: list[Any] = []
        ld: Any = 0.0
        clamp = self.defect == "gate-clamp"
        for i in range(self.d):
            prefix = torch.stack(out, 1) if self.defect == "uses-z" and out else x[:, :i]
            s, t = self.p(i, prefix, clamp)
            out.append(x[:, i] * s.exp() + t)
            if not (self.defect == "log-det-last" and i == self.d - 1):
                ld = ld + s
        return torch.stack(out, 1), ld

    def inverse(self, z: Any) -> Any:
        x = z if self.defect == "inplace-write" else z.clone()
        cols: list[Any] = []
        ld: Any = 0.0
        for i in range(self.d):
            prefix = torch.stack(cols, 1) if cols else x[:, :0]
            s, t = self.p(i, prefix, False)
            cols.append((z[:, i] - t) * (-s).exp())
            if self.defect == "inplace-write":
                with torch.no_grad():
                    z[:, i] = cols[-1]
            ld = ld - s
        return torch.stack(cols, 1), ld


def looped_autoregressive(defect: str = "") -> Any:
    torch.manual_seed(9)
    return IAF(defect=defect)


SPECIMENS = (
    Specimen(
        "looped_autoregressive",
        {
            "uses-z": ("map/inverse[latents]",),
            "log-det-last": ("map/log-det",),
            "inplace-write": ("effects/process[input]",),
            "first-param": ("state/registered",),
            "gate-clamp": ("map/inverse[latents]",),
        },
    ),
)
