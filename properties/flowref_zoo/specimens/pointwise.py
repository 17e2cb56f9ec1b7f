"""Elementwise maps whose bugs show at single numbers, in tails, or where nobody looked twice."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class Bent(nn.Module):
    r"""The identity up to a knot, a slope $e^s$ beyond; ladj $s$ per coordinate beyond the knot."""

    event_shape = (2,)
    knot: Any

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.register_buffer("knot", torch.tensor(2.25))
        self.log_slope = nn.Parameter(0.4 * torch.randn(2))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        if self.defect == "clamped-for-safety":
            x = x.clamp(-50, 50)
        beyond = x > self.knot
        z = torch.where(beyond, self.knot + (x - self.knot) * self.log_slope.exp(), x)
        ladj = torch.where(beyond, self.log_slope, torch.zeros_like(x))
        if self.defect == "tail-is-linear":
            ladj = torch.where(x > 3e3, torch.zeros_like(x), ladj)
        if self.defect == "center-divided-out":
            z = (x - 1) * z / (x - 1)
        return z, ladj.sum(-1)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data, each side of the knot selected and written for itself."""
        x, ladj = torch.zeros_like(z), torch.zeros_like(z)
        below, beyond = z <= self.knot, z > self.knot
        if self.defect == "knot-on-neither-side":
            below = z < self.knot
        if self.defect == "asserted-inside-alone":
            assert (z < 5).all()
        slopes = self.log_slope.expand_as(z)
        x = torch.where(below, z, x)
        x = torch.where(beyond, self.knot + (z - self.knot) * torch.exp(-slopes), x)
        return x, torch.where(beyond, -slopes, ladj).sum(-1)


class Cubic(nn.Module):
    r"""$z = x + a\,x|x|$ with $a > 0$; ladj $\sum_i \log(1 + 2 a |x_i|)$."""

    event_shape = (2,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.log_a = nn.Parameter(torch.tensor(-1.0))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        a = self.log_a.exp()
        if self.defect == "turns-far-out":
            a = torch.where(x.abs() > 300, -a / 100, a)
        return x + a * x * x.abs(), torch.log((1 + 2 * a * x.abs()).abs()).sum(-1)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data, by the root that does not cancel."""
        a = self.log_a.exp()
        root = torch.sqrt(1 + 4 * a * z.abs())
        sign = z / z.abs() if self.defect == "sign-by-division" else torch.sign(z)
        x = sign * 2 * z.abs() / (1 + root)
        return x, -torch.log(1 + 2 * a * x.abs()).sum(-1)


def bent(defect: str = "") -> nn.Module:
    """A piecewise linear map on two features."""
    return Bent(defect)


def cubic(defect: str = "") -> nn.Module:
    """A signed quadratic on two features."""
    return Cubic(defect)


SPECIMENS = (
    Specimen(
        "bent",
        {
            "clamped-for-safety": ("map/singular-jacobian", "map/one-to-one"),
            "tail-is-linear": ("map/log-det", "map/log-det[antisymmetry]"),
            "center-divided-out": ("map/finite",),
            "knot-on-neither-side": ("map/inverse", "map/inverse[latents]"),
            "asserted-inside-alone": ("map/finite",),
        },
    ),
    Specimen(
        "cubic",
        {
            "turns-far-out": ("map/one-to-one[orientation]",),
            "sign-by-division": ("map/finite",),
        },
    ),
)
