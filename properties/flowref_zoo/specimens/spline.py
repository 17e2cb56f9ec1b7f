"""A rational-quadratic spline with identity tails, and the bugs that are made in writing one."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class RationalQuadratic(nn.Module):
    r"""Elementwise monotone spline on $[-B, B]$, the identity outside.

    In a bin with secant slope $s$, end slopes $d_0, d_1$ and $\xi \in [0, 1]$:
    $z = y_0 + h \frac{s \xi^2 + d_0 \xi (1 - \xi)}{s + (d_0 + d_1 - 2 s) \xi (1 - \xi)}$.
    Source: Durkan et al. 2019, Neural Spline Flows (arXiv:1906.04032).
    """

    event_shape = (3,)

    def __init__(
        self, features: int = 3, bins: int = 6, bound: float = 3.0, defect: str = ""
    ) -> None:
        super().__init__()
        self.bins, self.bound, self.defect = bins, bound, defect
        self.widths = nn.Parameter(0.7 * torch.randn(features, bins))
        self.heights = nn.Parameter(0.7 * torch.randn(features, bins))
        self.slopes = nn.Parameter(0.7 * torch.randn(features, bins - 1))

    def knots(self, raw: Any) -> Any:
        """Knots from -B to B, both exact."""
        sizes = 1e-3 + (1 - 1e-3 * self.bins) * torch.softmax(raw, -1)
        inner = 2 * self.bound * torch.cumsum(sizes, -1)[:, :-1] - self.bound
        return F.pad(F.pad(inner, (1, 0), value=-self.bound), (0, 1), value=self.bound)

    def bin(self, value: Any, inverse: bool) -> tuple[Any, ...]:
        """Corner, size and end slopes of the bin of each value."""
        x, y = self.knots(self.widths), self.knots(self.heights)
        d = F.pad(1e-3 + F.softplus(self.slopes), (1, 1), value=1.0)
        searched = y if inverse and self.defect != "inverse-searches-data-knots" else x
        k = (value[..., None] >= searched[:, 1:-1]).sum(-1)
        if self.defect == "off-by-one-bin" and inverse:
            k = (k + 1).clamp(max=self.bins - 1)

        def at(table: Any, index: Any) -> Any:
            return table.expand(len(value), -1, -1).gather(-1, index[..., None])[..., 0]

        x0, y0, d0, d1 = at(x, k), at(y, k), at(d, k), at(d, k + 1)
        return x0, at(x, k + 1) - x0, y0, at(y, k + 1) - y0, d0, d1

    def log_slope(self, xi: Any, s: Any, d0: Any, d1: Any) -> Any:
        """Logarithm of the derivative."""
        if self.defect == "slope-at-wrong-knot":
            d1 = d0
        middle = 1 if self.defect == "middle-term-halved" else 2
        top = s**2 * (d1 * xi**2 + middle * s * xi * (1 - xi) + d0 * (1 - xi) ** 2)
        if self.defect == "eps-in-log":
            top = top + 1e-6
        return torch.log(top) - 2 * torch.log(s + (d0 + d1 - 2 * s) * xi * (1 - xi))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        inside = x.abs() < self.bound
        v = torch.where(inside, x, torch.zeros_like(x))
        x0, w, y0, h, d0, d1 = self.bin(v, inverse=False)
        s, xi = h / w, (v - x0) / w
        z = y0 + h * (s * xi**2 + d0 * xi * (1 - xi)) / (s + (d0 + d1 - 2 * s) * xi * (1 - xi))
        tail = x.clamp(-self.bound, self.bound) if self.defect == "tail-clamped" else x
        ladj = self.log_slope(xi, s, d0, d1)
        if self.defect != "tail-log-det":
            ladj = torch.where(inside, ladj, torch.zeros_like(ladj))
        return torch.where(inside, z, tail), ladj.sum(-1)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data: the stable root of a quadratic."""
        inside = z.abs() < self.bound
        v = torch.where(inside, z, torch.zeros_like(z))
        x0, w, y0, h, d0, d1 = self.bin(v, inverse=True)
        s, r = h / w, v - y0
        c = r * (d0 + d1 - 2 * s)
        a, b = h * (s - d0) + c, h * d0 - c
        xi = 2 * s * r / (b + torch.sqrt(b**2 + 4 * a * s * r))
        ladj = torch.where(inside, self.log_slope(xi, s, d0, d1), torch.zeros_like(z))
        return torch.where(inside, x0 + xi * w, z), -ladj.sum(-1)


def rational_quadratic(defect: str = "") -> nn.Module:
    """A spline with six bins on three features."""
    return RationalQuadratic(defect=defect)


SPECIMENS = (
    Specimen(
        "rational_quadratic",
        {
            "inverse-searches-data-knots": ("map/inverse",),
            "off-by-one-bin": ("map/inverse",),
            "slope-at-wrong-knot": ("map/log-det",),
            "middle-term-halved": ("map/log-det",),
            "eps-in-log": ("map/log-det",),
            "tail-clamped": ("map/inverse", "map/log-det"),
            "tail-log-det": ("map/log-det",),
        },
    ),
)
