"""Batch normalization as a layer of a flow, with an inverse."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class BatchNormFlow(nn.Module):
    r"""$z = e^g (x - \mu) / \sqrt{v + \epsilon} + b$; ladj $\sum_i g_i - \frac12 \log(v_i + \epsilon)$."""

    event_shape = (3,)
    kind = "bijection"
    rm: Any
    rv: Any
    bm: Any
    bv: Any

    def __init__(self, d: int = 3, eps: float = 0.001, defect: str = "") -> None:
        super().__init__()
        self.log_gamma, self.beta = nn.Parameter(torch.randn(d) * 0.2), nn.Parameter(torch.randn(d))
        self.register_buffer("rm", torch.zeros(d))
        self.register_buffer("rv", torch.ones(d))
        self.register_buffer("bm", torch.zeros(d))
        self.register_buffer("bv", torch.ones(d))
        self.eps, self.defect = eps, defect

    def forward(self, x: Any) -> Any:
        if self.training and len(x) > 1:
            m = x.mean(0)
            v = ((x - m) ** 2).mean(0)
            with torch.no_grad():
                self.bm.copy_(m)
                self.bv.copy_(v * (0.9 if self.defect == "unbiased" else 1))
                self.rm.mul_(0.9).add_(0.1 * m)
                self.rv.mul_(0.9).add_(0.1 * v)
        elif self.training:
            m, v = self.bm, self.bv
        else:
            m, v = self.rm, self.rv
        y = (x - m) / (v + self.eps).sqrt()
        ld = -0.5 * (v + self.eps).log()
        if self.defect == "log-det-half":
            ld = 2 * ld
        if self.defect != "log-det-gamma":
            ld = ld + self.log_gamma
        return self.log_gamma.exp() * y + self.beta, ld.sum().expand(len(x))

    def inverse(self, z: Any) -> Any:
        if self.training and self.defect != "inverse-stats":
            m, v = self.bm, self.bv
        else:
            m, v = self.rm, self.rv
        e = 0 if self.defect == "epsilon-inverse" else self.eps
        g = 1 + self.log_gamma if self.defect == "gamma-exp" else self.log_gamma.exp()
        x = (z - self.beta) / g * (v + e).sqrt() + m
        if self.defect == "inverse-log-det-stats":
            v = self.rv
        return x, (0.5 * (v + self.eps).log() - self.log_gamma).sum().expand(len(z))


def normalizer_flow(defect: str = "") -> Any:
    torch.manual_seed(29)
    return BatchNormFlow(defect=defect)


SPECIMENS = (
    Specimen(
        "normalizer_flow",
        {
            "log-det-gamma": ("map/log-det",),
            "log-det-half": ("map/log-det",),
            "epsilon-inverse": ("map/inverse[latents]",),
            "gamma-exp": ("map/inverse[latents]",),
            "unbiased": ("map/inverse[batch-spread]",),
            "inverse-stats": ("map/inverse[last-call]",),
            "inverse-log-det-stats": ("map/log-det[last-call]",),
        },
    ),
)
