"""Linear layers: LU factors, 1x1 convolutions and permutations, with stale caches and state that is
not saved.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class LULinear(nn.Module):
    r"""$z = L U x + b$ with unit lower $L$ and $\operatorname{diag} U = e^{d}$; ladj $\sum_i d_i$."""

    event_shape = (4,)

    def __init__(self, features: int = 4, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.lower = nn.Parameter(0.3 * torch.randn(features, features))
        self.upper = nn.Parameter(0.3 * torch.randn(features, features))
        self.log_diagonal = nn.Parameter(0.3 * torch.randn(features))
        self.bias = nn.Parameter(torch.randn(features))

    def factors(self) -> tuple[Any, Any]:
        """Lower and upper factor."""
        diagonal = 0 if self.defect == "diagonal-not-masked" else 1
        lower = torch.tril(self.lower, -1) + torch.eye(
            len(self.bias), dtype=self.bias.dtype, device=self.bias.device
        )
        return lower, torch.triu(self.upper, diagonal) + torch.diag(self.log_diagonal.exp())

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        lower, upper = self.factors()
        product = upper @ lower if self.defect == "factors-swapped" else lower @ upper
        ladj = self.log_diagonal.sum()
        if self.defect == "exp-missing-log":
            ladj = self.log_diagonal.exp().sum()
        z = x @ product.T + self.bias
        return z, ladj if self.defect == "log-det-scalar" else ladj.expand(len(x))

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data, by two triangular solves."""
        lower, upper = self.factors()
        y = (z + self.bias if self.defect == "bias-added-back" else z - self.bias).T
        y = torch.linalg.solve_triangular(lower, y, upper=False, unitriangular=True)
        return torch.linalg.solve_triangular(
            upper, y, upper=True
        ).T, -self.log_diagonal.sum().expand(len(z))


def lu_linear(defect: str = "") -> nn.Module:
    """A linear layer in LU form on four features."""
    return LULinear(defect=defect)


class ChannelMixing(nn.Module):
    r"""Invertible 1x1 convolution; ladj $H W \log|\det W|$. Source: Glow (arXiv:1807.03039)."""

    event_shape = (3, 4, 2)

    def __init__(self, channels: int = 3, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        weight = torch.linalg.qr(torch.randn(channels, channels))[0]
        weight[0] *= -torch.det(
            weight
        ).sign()  # an orientation that a logarithm of the determinant does not survive
        self.weight = nn.Parameter(weight)
        self.cached: Any = None

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        pixels = x.shape[2] ** 2 if self.defect == "height-squared" else x.shape[2] * x.shape[3]
        pixels = 1 if self.defect == "pixels-missing" else pixels
        log_det = torch.linalg.slogdet(self.weight)[1]
        if self.defect == "log-of-negative":
            log_det = torch.logdet(self.weight)
        return F.conv2d(x, self.weight[:, :, None, None]), (pixels * log_det).expand(len(x))

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        back = (
            self.weight.T
            if self.defect == "transpose-for-inverse"
            else torch.linalg.inv(self.weight)
        )
        if self.defect == "stale-inverse":
            if self.cached is None:
                self.cached = back.detach()
            back = self.cached.to(z)
        ladj = -z.shape[2] * z.shape[3] * torch.linalg.slogdet(self.weight)[1]
        return F.conv2d(z, back[:, :, None, None]), ladj.expand(len(z))


def channel_mixing(defect: str = "") -> nn.Module:
    """A 1x1 convolution of three channels."""
    return ChannelMixing(defect=defect)


class Permutation(nn.Module):
    """A random cyclic permutation of the coordinates, fixed when it is built; it is no involution."""

    event_shape = (5,)
    order: Any

    def __init__(self, features: int = 5, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        cycle = torch.randperm(features)
        order = torch.empty_like(cycle).scatter(0, cycle, cycle.roll(1))
        self.register_buffer("order", order, persistent=defect != "order-not-saved")

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        return x[:, self.order], x.new_zeros(len(x))

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        back = self.order if self.defect == "order-used-twice" else torch.argsort(self.order)
        return z[:, back], z.new_zeros(len(z))


def permutation(defect: str = "") -> nn.Module:
    """A permutation of five coordinates."""
    return Permutation(defect=defect)


SPECIMENS = (
    Specimen(
        "lu_linear",
        {
            "diagonal-not-masked": ("map/log-det",),
            "factors-swapped": ("map/inverse",),
            "exp-missing-log": ("map/log-det",),
            "log-det-scalar": ("shape/one-number-per-point[log-det]",),
            "bias-added-back": ("map/inverse",),
        },
    ),
    Specimen(
        "channel_mixing",
        {
            "height-squared": ("map/log-det",),
            "pixels-missing": ("map/log-det",),
            "log-of-negative": ("map/log-det",),
            "transpose-for-inverse": ("map/inverse",),
            "stale-inverse": ("same/history[optimizer-step]",),
        },
    ),
    Specimen(
        "permutation",
        {
            "order-not-saved": ("same/saved[reload]",),
            "order-used-twice": ("map/inverse",),
        },
    ),
)
