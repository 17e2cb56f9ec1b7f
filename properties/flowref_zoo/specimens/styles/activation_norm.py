"""Activation normalization of vectors that is initialized by the first batch in train mode."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn as nn

from flowref_zoo.specimens.specimen import Specimen


class ActNorm(nn.Module):
    r"""$z_i = a_i (x_i + b_i)$, from the mean and deviation of the first batch; ladj $\sum_i \log |a_i|$."""

    event_shape = (4,)
    initialized: Any

    def __init__(self, features: Any, defect: str = "") -> None:
        super().__init__()
        self.loc = nn.Parameter(torch.zeros(1, features))
        self.scale = nn.Parameter(torch.ones(1, features))
        self.defect = defect
        if defect == "flag-attribute":
            self.initialized = False
        else:
            self.register_buffer("initialized", torch.tensor(0, dtype=torch.uint8))

    def initialize(self, x: Any) -> Any:
        with torch.no_grad():
            dim = 1 if self.defect == "axis" else 0
            mean = x.mean(dim, keepdim=True)
            std = (
                x.var(dim, keepdim=True)
                if self.defect == "var-for-deviation"
                else x.std(dim, keepdim=True)
            )
            if self.defect == "axis":
                mean, std = mean.mean(0, keepdim=True), std.mean(0, keepdim=True)
            self.loc.copy_(-mean.expand_as(self.loc))
            self.scale.copy_((1 / (std + 1e-06)).expand_as(self.scale))

    def forward(self, x: Any) -> Any:
        ld = (
            self.scale.abs().log().sum() if self.defect == "log-det-before-initialization" else None
        )
        go = self.training or self.defect == "eval-initial"
        if go and x.shape[0] > 1 and (self.defect == "reinit" or not self.initialized):
            self.initialize(x)
            if self.defect == "flag-attribute":
                self.initialized = True
            else:
                self.initialized.fill_(1)
        z = self.scale * (x + self.loc)
        if ld is None:
            ld = self.scale.abs().log().sum()
        return z, ld * torch.ones(x.shape[0], dtype=x.dtype, device=x.device)

    def inverse(self, z: Any) -> Any:
        x = z / self.scale - self.loc
        if self.defect == "inverse-sign":
            x = z / self.scale + self.loc
        return x, -self.scale.abs().log().sum() * torch.ones(
            z.shape[0], dtype=z.dtype, device=z.device
        )


def activation_norm(defect: str = "") -> Any:
    return ActNorm(4, defect)


SPECIMENS = (
    Specimen(
        "activation_norm",
        {
            "flag-attribute": ("same/saved[resume]",),
            "reinit": ("batch-norm/gradient[closed-form]",),
            "var-for-deviation": ("mode/first-batch",),
            "inverse-sign": ("map/inverse[latents]",),
            "log-det-before-initialization": ("same/train-mode[first-call]",),
            "eval-initial": ("effects/state[first-call]",),
        },
    ),
)
