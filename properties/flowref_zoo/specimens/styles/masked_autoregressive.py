"""A masked autoregressive flow with one hidden layer; its inverse goes over the features."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F

from flowref_zoo.specimens.specimen import Specimen


class MaskedLinear(nn.Linear):
    """A linear layer whose weights are masked."""

    mask: Any

    def set(self, m: Any, plain: bool = False) -> Any:
        if plain:
            self.mask = m
        else:
            self.register_buffer("mask", m)

    def forward(self, x: Any) -> Any:
        return F.linear(x, self.weight * self.mask.to(x.dtype), self.bias)


class MAF(nn.Module):
    r"""$z_i = (x_i - \mu_i(x_{<i})) e^{-\alpha_i(x_{<i})}$; ladj $-\sum_i \alpha_i$."""

    event_shape = (4,)

    def __init__(self, d: int = 4, h: int = 16, defect: str = "") -> None:
        super().__init__()
        self.d, self.defect = d, defect
        m0, m1 = torch.arange(d), torch.arange(h) % (d - 1)
        self.l1, self.l2 = MaskedLinear(d, h), MaskedLinear(h, 2 * d)
        if defect == "context-leak":
            m1 = torch.arange(h) % (d - 2)
        self.l1.set((m1[:, None] >= m0[None, :]).float(), defect == "mask-attribute")
        out = m0.repeat(2)
        l2 = out[:, None] >= m1[None, :] if defect == "leak" else out[:, None] > m1[None, :]
        self.l2.set(l2.float(), defect == "mask-attribute")

    def net(self, x: Any) -> Any:
        return self.l2(torch.tanh(self.l1(x))).chunk(2, 1)

    def forward(self, x: Any) -> Any:
        mu, alpha = self.net(x)
        z = (x - mu) * torch.exp(-alpha)
        return z, (alpha if self.defect == "alpha" else -alpha).sum(1)

    def inverse(self, z: Any) -> Any:
        x = torch.zeros_like(z)
        first: Any = None
        for _ in range(self.d - (self.defect == "few")):
            mu, alpha = self.net(x)
            x = z * alpha.exp() + mu
            first = alpha if first is None else first
        return x, (first if self.defect == "inverse-log-det" else alpha).sum(1)


def masked_autoregressive(defect: str = "") -> Any:
    torch.manual_seed(8)
    return MAF(defect=defect)


SPECIMENS = (
    Specimen(
        "masked_autoregressive",
        {
            "leak": ("map/inverse[latents]",),
            "few": ("map/inverse[latents]",),
            "inverse-log-det": ("map/log-det[inverse]",),
            "alpha": ("map/log-det",),
            "mask-attribute": ("dtype/follows[device]",),
        },
    ),
)
