"""A stack of masked couplings, all in one module: lists of networks and a buffer of masks."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


def mlp(d: Any) -> Any:
    return nn.Sequential(nn.Linear(d, 16), nn.Tanh(), nn.Linear(16, d))


class RealNVP(nn.Module):
    r"""$z = m x + (1 - m)(x e^{s(m x)} + t(m x))$ with $s = \tanh(\cdot)$, four times; ladj $\sum (1 - m) s$."""

    event_shape = (6,)
    mask: Any
    s: Any
    t: Any

    def __init__(self, d: int = 6, layers: int = 4, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        m = ([mlp(d) for _ in range(layers)], [mlp(d) for _ in range(layers)])
        if defect == "py-list":
            self.s, self.t = m
        else:
            self.s, self.t = nn.ModuleList(m[0]), nn.ModuleList(m[1])
        base = torch.arange(d) % 2
        self.register_buffer(
            "mask",
            torch.stack([base if i % 2 == 0 else 1 - base for i in range(layers)]).to(
                torch.get_default_dtype()
            ),
        )

    def forward(self, x: Any) -> Any:
        ld = x.new_zeros(x.shape[0])
        for i, (s, t) in enumerate(zip(self.s, self.t, strict=False)):
            m = self.mask[i]
            h = m * x
            a = torch.tanh(s(h))
            if self.defect != "log-det-unmasked":
                a = a * (1 - m)
            b = (1 - m) * t(h)
            x = h + (1 - m) * (x * a.exp()) + b
            if self.defect == "last-layer" and i == len(self.s) - 1:
                continue
            term = a.detach().sum(1) if self.defect == "scale-detach" else a.sum(1)
            ld = ld + (2 * term if self.defect == "exp-twice" else term)
        return x, ld

    def inverse(self, z: Any) -> Any:
        ld = z.new_zeros(z.shape[0])
        order = (
            range(len(self.s)) if self.defect == "inverse-order" else reversed(range(len(self.s)))
        )
        for i in order:
            m = 1 - self.mask[i] if self.defect == "parity" else self.mask[i]
            h = m * z
            a = self.s[i](h)
            if self.defect != "no-tanh-inverse":
                a = torch.tanh(a)
            a = a * (1 - m)
            z = h + (1 - m) * ((z - self.t[i](h)) * (-a).exp())
            ld = ld - a.sum(1)
        return z, ld


def masked_stack(defect: str = "") -> Any:
    torch.manual_seed(2)
    return RealNVP(defect=defect)


SPECIMENS = (
    Specimen(
        "masked_stack",
        {
            "parity": ("map/inverse[latents]",),
            "log-det-unmasked": ("map/log-det",),
            "no-tanh-inverse": ("map/inverse[latents]",),
            "last-layer": ("map/log-det",),
            "py-list": ("state/registered",),
            "exp-twice": ("map/log-det",),
            "scale-detach": ("gradient/parameters[log-det]",),
            "inverse-order": ("map/inverse[latents]",),
        },
    ),
)
