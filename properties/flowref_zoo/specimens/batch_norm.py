"""Normalizing layers: data-dependent initialization and running statistics, with the bugs made in
mode and state.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class ActNorm(nn.Module):
    r"""$z = (x - m)\, e^{s}$ per channel, set from the first training batch; ladj $H W \sum_c s_c$."""

    event_shape = (3, 2, 2)
    initialized: Any

    def __init__(self, channels: int = 3, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.log_scale = nn.Parameter(torch.zeros(1, channels, 1, 1))
        self.shift = nn.Parameter(torch.zeros(1, channels, 1, 1))
        if defect == "flag-not-saved":
            self.initialized = torch.tensor(False)
        else:
            self.register_buffer("initialized", torch.tensor(False))

    @torch.no_grad()
    def initialize(self, x: Any) -> None:
        """Give this batch mean 0 and standard deviation 1 per channel."""
        if self.defect == "first-position":
            x = x[:, :, :1, :1]
        if self.defect == "first-row":
            x = x[:1]
        sign = -1 if self.defect == "mean-added" else 1
        self.shift.copy_(sign * x.mean((0, 2, 3), keepdim=True))
        spread = x.std((0, 2, 3), keepdim=True) + 1e-6
        self.log_scale.copy_(spread.log() if self.defect == "multiplied" else -spread.log())
        self.initialized = torch.tensor(True)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        fresh = not self.initialized and (self.training or self.defect == "initialized-in-eval")
        if fresh or self.defect == "batch-statistics-in-eval":
            self.initialize(x)
        pixels = 1 if self.defect == "pixels-missing" else x.shape[2] * x.shape[3]
        return (x - self.shift) * torch.exp(self.log_scale), (pixels * self.log_scale.sum()).expand(
            len(x)
        )

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        scale = torch.exp(self.log_scale) + (1e-6 if self.defect == "eps-in-inverse" else 0)
        return z / scale + self.shift, (-z.shape[2] * z.shape[3] * self.log_scale.sum()).expand(
            len(z)
        )


def actnorm(defect: str = "") -> nn.Module:
    """Activation normalization of three channels."""
    return ActNorm(defect=defect)


class Normalized(nn.Module):
    """A density of which the latents are standard normal; its one layer is set from the first batch."""

    event_shape = (3, 2, 2)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.norm = ActNorm(defect=defect)

    def log_prob(self, x: Any) -> Any:
        """The log-density."""
        z, ladj = self.norm(x)
        return torch.distributions.Normal(0.0, 1.0).log_prob(z).sum((1, 2, 3)) + ladj

    @torch.no_grad()
    def sample(self, n: int) -> Any:
        """Samples."""
        return self.norm.inverse(torch.randn(n, *self.event_shape, device=self.norm.shift.device))[
            0
        ]


def normalized(defect: str = "") -> nn.Module:
    """A density with activation normalization of three channels."""
    return Normalized(defect=defect)


class RunningNormalization(nn.Module):
    r"""$z = (x - \mu) / \sqrt{v + \epsilon}\; e^{g} + b$: batch statistics in train mode, running
    ones in eval mode.
    """

    event_shape = (3,)
    running_mean: Any
    running_var: Any

    def __init__(
        self, features: int = 3, eps: float = 1e-5, momentum: float = 0.1, defect: str = ""
    ) -> None:
        super().__init__()
        self.eps, self.momentum, self.defect = eps, momentum, defect
        self.log_gamma = nn.Parameter(torch.zeros(features))
        self.beta = nn.Parameter(torch.zeros(features))
        saved = defect != "statistics-not-saved"
        self.register_buffer("running_mean", torch.zeros(features), persistent=saved)
        self.register_buffer("running_var", torch.ones(features), persistent=saved)

    def update(self, mean: Any, var: Any, n: int) -> None:
        """Move the running statistics; the variance kept is the unbiased one."""
        unbiased = var * n / max(n - 1, 1)
        if self.defect == "graph-in-buffers":
            self.running_mean = torch.lerp(self.running_mean, mean, self.momentum)
            self.running_var = torch.lerp(self.running_var, unbiased, self.momentum)
            return
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(unbiased, self.momentum)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        mean, var = self.running_mean.clone(), self.running_var.clone()
        batch = x.mean(0), x.var(0, unbiased=False)
        if self.training or (self.defect == "batch-statistics-in-eval" and len(x) > 1):
            mean, var = batch
        if self.training or self.defect == "updated-in-eval":
            self.update(*batch, n=len(x))
        z = (x - mean) / torch.sqrt(var + self.eps) * torch.exp(self.log_gamma) + self.beta
        inside = var if self.defect == "eps-missing-in-log-det" else var + self.eps
        half = 1.0 if self.defect == "half-missing" else 0.5
        return z, (self.log_gamma - half * torch.log(inside)).sum().expand(len(x))

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data, with the running statistics; not defined in train mode."""
        if self.training:
            raise NotImplementedError(
                "the inverse is defined in eval mode only; call .eval() first"
            )
        eps = 1e-6 if self.defect == "inverse-eps-differs" else self.eps
        x = (z - self.beta) * torch.exp(-self.log_gamma) * torch.sqrt(
            self.running_var + eps
        ) + self.running_mean
        return x, (0.5 * torch.log(self.running_var + self.eps) - self.log_gamma).sum().expand(
            len(z)
        )


def running_normalization(defect: str = "") -> nn.Module:
    """Batch normalization as a bijection of three features."""
    return RunningNormalization(defect=defect)


SPECIMENS = (
    Specimen(
        "actnorm",
        {
            "flag-not-saved": ("same/saved[resume]",),
            "initialized-in-eval": ("effects/state[first-call]",),
            "batch-statistics-in-eval": ("same/rows", "effects/state[eval]"),
            "pixels-missing": ("map/log-det",),
            "eps-in-inverse": ("map/inverse",),
            "first-position": ("mode/first-batch",),
            "first-row": ("mode/first-batch",),
            "mean-added": ("mode/first-batch",),
        },
    ),
    Specimen("normalized", {"multiplied": ("mode/first-batch[layers]",)}),
    Specimen(
        "running_normalization",
        {
            "statistics-not-saved": ("same/saved[reload]",),
            "graph-in-buffers": ("effects/graphs",),
            "batch-statistics-in-eval": ("same/rows",),
            "updated-in-eval": ("effects/state[eval]",),
            "eps-missing-in-log-det": ("map/log-det",),
            "half-missing": ("map/log-det",),
            "inverse-eps-differs": ("map/inverse",),
        },
    ),
)
