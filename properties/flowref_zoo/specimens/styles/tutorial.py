"""A flow of a tutorial: f and g, log_prob and sample, masks that are parameters without gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class RealNVP(nn.Module):
    r"""Four masked couplings; $f$ maps data to latents, $g$ back; $\log p(x) = \log N(f(x)) + \mathrm{ladj}$."""

    event_shape = (2,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        mask = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
        self.mask = nn.Parameter(mask, requires_grad=defect == "mask-param")
        self.s = nn.ModuleList(
            [
                nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(), nn.Linear(16, 2), nn.Tanh())
                for _ in mask
            ]
        )
        self.t = nn.ModuleList(
            [nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(), nn.Linear(16, 2)) for _ in mask]
        )

    def g(self, z: Any) -> Any:
        x = z
        for i in range(len(self.t)):
            m = 1 - self.mask[i] if self.defect == "g-mask" and i == 2 else self.mask[i]
            x_ = x * m
            s, t = self.s[i](x_) * (1 - m), self.t[i](x_) * (1 - m)
            x = x_ + (1 - m) * (x * s.exp() + t)
        return x

    def f(self, x: Any) -> Any:
        ld, z = x.new_zeros(x.shape[0]), x
        for i in reversed(range(len(self.t))):
            m = self.mask[i]
            z_ = m * z
            s, t = self.s[i](z_) * (1 - m), self.t[i](z_) * (1 - m)
            z = (1 - m) * (z - t) * (-s).exp() + z_
            ld = ld + s.sum(1) if self.defect == "log-det-pos" else ld - s.sum(1)
        return z, ld

    def log_prob(self, x: Any) -> Any:
        z, ld = self.f(x)
        sd = 2.0 if self.defect == "prior" else 1.0
        lp = (
            torch.distributions.Normal(
                torch.zeros(2, dtype=x.dtype, device=x.device),
                sd * torch.ones(2, dtype=x.dtype, device=x.device),
            )
            .log_prob(z)
            .sum(1)
        )
        return lp + ld

    def sample(self, n: Any) -> Any:
        z = torch.randn(n, 2, dtype=self.mask.dtype, device=self.mask.device)
        x = self.g(z)
        return x.squeeze(0) if self.defect == "sample-gradient" else x


def tutorial(defect: str = "") -> Any:
    torch.manual_seed(20)
    return RealNVP(defect)


SPECIMENS = (
    Specimen(
        "tutorial",
        {
            "g-mask": ("sampling/follows-density[ratios]",),
            "log-det-pos": ("density/mass",),
            "prior": ("sampling/follows-density[ratios]",),
            "mask-param": ("map/inverse[latents]",),
            "sample-gradient": ("shape/one-number-per-point[samples]",),
        },
    ),
)
