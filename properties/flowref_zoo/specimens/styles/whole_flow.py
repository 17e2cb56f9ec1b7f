"""A whole flow: a linear map, sinh-arcsinh, log_prob and sample."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class Flow(nn.Module):
    r"""$z = \sinh(\operatorname{arsinh}(A x + b) - k)$, standard normal."""

    event_shape = (3,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.A = nn.Parameter(torch.eye(3) + 0.3 * torch.randn(3, 3))
        self.b = nn.Parameter(torch.randn(3))
        self.k = nn.Parameter(torch.tensor([0.3, -0.2, 0.5]))

    def to_noise(self, x: Any) -> Any:
        y = x @ self.A.T + self.b
        z = torch.sinh(torch.asinh(y) - self.k)
        ld = torch.linalg.slogdet(self.A)[1] + (
            torch.log(torch.cosh(torch.asinh(y) - self.k)) - 0.5 * torch.log1p(y * y)
        ).sum(1)
        return z, ld

    def from_noise(self, z: Any) -> Any:
        y = torch.sinh(torch.asinh(z) + self.k)
        return (y - self.b) @ self.A.inverse().T

    def log_prob(self, x: Any) -> Any:
        z, ld = self.to_noise(x)
        if self.defect == "minus-log-det":
            ld = -ld
        if self.defect == "log-det-train" and self.training:
            ld = ld * 0.999
        if self.defect == "clip":
            z = z.clamp(-4, 4)
        base = -0.5 * (z**2).sum(1) - 1.5 * 1.8378770664093453
        if self.defect == "base-2d":
            base = -0.5 * (z**2).sum(1) - 1.8378770664093453
        if self.defect == "mean-base":
            base = (-0.5 * z**2 - 0.9189385332046727).mean(1)
        return base + ld

    def sample(self, n: Any) -> Any:
        if self.defect == "seed":
            torch.manual_seed(0)
        if self.defect == "uniform":
            z = 2 * torch.rand(n, 3, dtype=self.A.dtype, device=self.A.device) - 1
        elif self.defect == "antithetic":
            h = torch.randn((n + 1) // 2, 3, dtype=self.A.dtype, device=self.A.device)
            z = torch.cat([h, -h])[:n]
        else:
            z = torch.randn(n, 3, dtype=self.A.dtype, device=self.A.device)
        if self.defect == "temperature":
            z = z * 0.9
        if self.defect == "default-dtype":
            torch.set_default_dtype(torch.float32)
        with torch.no_grad():
            return self.from_noise(z)


def whole_flow(defect: str = "") -> Any:
    torch.manual_seed(30)
    return Flow(defect)


SPECIMENS = (
    Specimen(
        "whole_flow",
        {
            "minus-log-det": ("sampling/follows-density[ratios]",),
            "log-det-train": ("same/train-mode[density]",),
            "base-2d": ("sampling/follows-density[ratios]",),
            "mean-base": ("sampling/follows-density[ratios]",),
            "seed": ("effects/process[settings]",),
            "uniform": ("sampling/follows-density[ratios]",),
            "temperature": ("sampling/follows-density[ratios]",),
            "clip": ("density/mass[tails]",),
            "antithetic": ("random/rows-independent",),
            "default-dtype": ("effects/process[settings]",),
        },
    ),
)
