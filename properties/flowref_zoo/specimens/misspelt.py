"""A small flow with an ability that reads what there is not: the rest of it is as it should be."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class ScaledNormal(nn.Module):
    r"""$z = e^{s} \odot x$ with a normal base; ladj $\sum_i s_i$."""

    def __init__(self, dim: int = 3, defect: str = "") -> None:
        super().__init__()
        self.dim, self.defect = dim, defect
        self.log_scale = nn.Parameter(0.5 * torch.randn(dim))

    def scale_of(self, ability: str) -> Any:
        """The log-scale, under the wrong name where that is the bug."""
        return self.log_scales if self.defect == ability else self.log_scale

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        ladj = self.log_scale.sum().expand(len(x))
        if self.defect == "inverse-and-log-det":
            ladj = -ladj
        return x * self.log_scale.exp(), ladj

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        name = "inverse" if self.defect != "inverse-and-log-det" else self.defect
        log_scale = self.scale_of(name)
        return z * (-log_scale).exp(), -log_scale.sum().expand(len(z))

    def log_prob(self, x: Any) -> Any:
        """The log-density."""
        z = x * self.scale_of("log-prob").exp()
        constant = self.log_scale.sum() - 0.5 * self.dim * math.log(2 * math.pi)
        return constant - 0.5 * (z**2).sum(-1)

    @torch.no_grad()
    def sample(self, n: int) -> Any:
        """Base noise, scaled back."""
        return (
            torch.randn(n, self.dim, device=self.log_scale.device)
            * (-self.scale_of("sample")).exp()
        )


def scaled_normal(defect: str = "") -> nn.Module:
    """A scaled normal of three numbers."""
    return ScaledNormal(defect=defect)


WORK = ("map/calls-work",)
SPECIMENS = (
    Specimen(
        "scaled_normal",
        {
            "inverse": WORK,
            "log-prob": WORK,
            "sample": WORK,
            "inverse-and-log-det": ("map/log-det",),
        },
    ),
)
