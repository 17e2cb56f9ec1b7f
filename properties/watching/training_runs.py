"""Models whose training goes wrong in one way each, and the loops that train them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


class Scaling(nn.Module):
    """An affine coupling of four features with a scale of its own; ``defect`` plants what is wrong."""

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.log_scale = nn.Parameter(torch.zeros(2))
        self.net = nn.Linear(2, 2)
        if defect == "unreached":
            self.spare = nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Values and log-dets."""
        a, b = x.chunk(2, -1)
        log_det = self.log_scale.sum().expand(len(x))
        shift = self.net(a)
        if self.defect == "rows" and not self.training:
            shift = shift + b.mean(0) * 0.1
        z = torch.cat([a, b * self.log_scale.exp() + shift], -1)
        return z, log_det / 2 if self.defect == "log-det" else log_det

    def inverse(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The way back, with its log-dets."""
        a, b = z.chunk(2, -1)
        shift = self.net(a) * (0.9 if self.defect == "inverse" else 1.0)
        return torch.cat(
            [a, (b - shift) * (-self.log_scale).exp()], -1
        ), -self.log_scale.sum().expand(len(z))


class Flow(nn.Module):
    """Two couplings and a normal base."""

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.layers = nn.ModuleList([Scaling(), Scaling(defect)])

    def scale(self, layer: int, value: float) -> None:
        """Give a coupling this log-scale."""
        torch.nn.init.constant_(self.layers[layer].get_parameter("log_scale"), value)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Latents and log-dets."""
        total = torch.zeros(len(x), dtype=x.dtype)
        for layer in self.layers:
            x, log_det = layer(x)
            total = total + log_det
        return x, total

    def inverse(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Data and log-dets."""
        total = torch.zeros(len(z), dtype=z.dtype)
        layer: Any
        for layer in reversed(self.layers):
            z, log_det = layer.inverse(z)
            total = total + log_det
        return z, total

    def log_prob(self, x: torch.Tensor) -> torch.Tensor:
        """Log-densities."""
        z, log_det = self.forward(x)
        return -0.5 * z.square().sum(-1) + log_det


class SquareRoot(nn.Module):
    """A layer whose gradient is not finite where its values are: at 0."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Roots of products."""
        return (x * self.weight).sqrt()


class HalfNorm(nn.Module):
    """A batch norm of a user's own; ``wrong``: the running variance keeps the deviation."""

    running_mean: torch.Tensor
    running_var: torch.Tensor

    def __init__(self, features: int = 4, wrong: bool = False) -> None:
        super().__init__()
        self.wrong, self.momentum, self.eps = wrong, 0.1, 1e-5
        self.weight, self.bias = (
            nn.Parameter(torch.ones(features)),
            nn.Parameter(torch.zeros(features)),
        )
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalized rows."""
        if self.training:
            mean, var = x.mean(0), x.var(0, unbiased=False)
            with torch.no_grad():
                kept = x.var(0).sqrt() if self.wrong else x.var(0)
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(kept, self.momentum)
        else:
            mean, var = self.running_mean, self.running_var
        return (x - mean) / (var + self.eps).sqrt() * self.weight + self.bias


def train(
    model: Any, steps: int, loss: Callable[[torch.Tensor], torch.Tensor], rate: float = 1e-3,
    batches: Callable[[int], torch.Tensor] = lambda step: torch.randn(16, 4), each: Callable[[int], Any] = lambda _: None,
) -> None:  # fmt: skip
    """Steps of stochastic gradient descent; ``each`` is called with the number of each step before it."""
    optimizer = torch.optim.SGD(model.parameters(), rate)
    for step in range(1, steps + 1):
        each(step)
        optimizer.zero_grad()
        loss(batches(step)).backward()
        optimizer.step()
