"""Data that are standardized by buffers, which a method sets: as built they hold zero and one."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class Standardized(nn.Module):
    """An affine map of data that are standardized first."""

    theta_mean: Any
    theta_std: Any

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.log_scale = nn.Parameter(torch.zeros(3))
        self.register_buffer("theta_mean", torch.zeros(3))
        self.register_buffer("theta_std", torch.ones(3))

    def set_standards(self, theta: Any) -> None:
        """By what data there are."""
        self.theta_mean.copy_(theta.mean(0))
        self.theta_std.copy_(theta.std(0))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        z = (x - self.theta_mean) / self.theta_std * self.log_scale.exp()
        ladj = self.log_scale - (0 if self.defect == "volume-of-std" else self.theta_std.log())
        return z, ladj.sum().expand(len(x))

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        x = z * (-self.log_scale).exp() * self.theta_std
        x = x if self.defect == "mean-forgotten" else x + self.theta_mean
        return x, (self.theta_std.log() - self.log_scale).sum().expand(len(z))


class Scores(nn.Module):
    """Nothing but what data are standardized by."""

    center: Any
    scale: Any

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.register_buffer("center", torch.zeros(3))
        self.register_buffer("scale", torch.ones(3))

    def fit(self, x: Any) -> None:
        """By what data there are."""
        self.center, self.scale = x.mean(0), x.std(0)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to scores."""
        ladj = 0 * self.scale if self.defect else -self.scale.log()
        return (x - self.center) / self.scale, ladj.sum().expand(len(x))

    def inverse(self, z: Any) -> Any:
        """Scores to data."""
        return z * self.scale + self.center


class Weighed(nn.Module):
    """Buffers of ones that nothing sets, or that are no standards, are what they are."""

    ones: Any
    scale: Any

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.log_scale = nn.Parameter(torch.zeros(3))
        self.register_buffer("ones", torch.ones(3))
        self.register_buffer("scale", torch.ones(3))

    def set_mask(self, mask: Any) -> None:
        """Of entries that are moved."""
        self.ones.copy_(mask)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents; both kinds of ones are counted on."""
        moved = x * (self.ones * self.log_scale).exp() * self.scale
        ladj = self.log_scale[1:] if self.defect else self.log_scale
        return self.ones * moved + (1 - self.ones) * x, ladj.sum().expand(len(x))

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        return z * (-self.log_scale).exp(), -self.log_scale.sum().expand(len(z))


def standardized(defect: str = "") -> Standardized:
    """Before it is set."""
    return Standardized(defect)


def weighed(defect: str = "") -> Weighed:
    """With ones that stay."""
    return Weighed(defect)


def scores(defect: str = "") -> Scores:
    """Without parameters."""
    return Scores(defect)


SPECIMENS = (
    Specimen("scores", {"none": ("map/log-det",)}),
    Specimen(
        "standardized",
        {"volume-of-std": ("map/log-det",), "mean-forgotten": ("map/inverse",)},
    ),
    Specimen("weighed", {"first-forgotten": ("map/log-det",)}),
)
