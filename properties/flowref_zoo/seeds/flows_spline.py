"""The rational-quadratic spline of the tutorial on flows, with a bug.

It is numbered and built as those of `flows`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.functional import pad, softplus

from flowref_zoo.seeds.bug_rows import ALL, chosen, refuse_other


class Spline(nn.Module):
    r"""A monotone rational-quadratic spline for each entry, of K widths, K heights and K - 1 slopes
    on $[-B, B]$, with slopes of 1 at both ends; outside the identity.

    Rows: 001-12, of the heights a least one is taken off and not given back, so that the last knot
    lies below B, where the identity begins.
    """

    BUGS = ("001-12",)
    event_shape, BINS, BOUND, LEAST = (2,), 3, 2.0, 1e-3

    def __init__(self, rows: str = ALL) -> None:
        super().__init__()
        self.rows = chosen(rows, self.BUGS)
        self.bound = self.BOUND
        self.widths = nn.Parameter(torch.randn(2, self.BINS))
        self.heights = nn.Parameter(torch.randn(2, self.BINS))
        self.slopes = nn.Parameter(torch.randn(2, self.BINS - 1))

    def knots(self) -> tuple[Any, Any, Any]:
        """Where the spline passes, and how steeply."""
        places = []
        for raw, short in ((self.widths, False), (self.heights, "001-12" in self.rows)):
            shares = (1 - self.BINS * self.LEAST) * raw.softmax(-1)
            shares = shares if short else shares + self.LEAST
            places.append(pad(2 * self.bound * shares.cumsum(-1), (1, 0)) - self.bound)
        return places[0], places[1], pad(0.1 + softplus(self.slopes), (1, 1), value=1.0)

    def parts(self, x: Any, ends: Any) -> tuple[Any, ...]:
        """Both knots of the bin of each entry: x, y and slope of the lower, and of the upper."""
        bins = (x[..., None] >= ends[:, 1:-1]).sum(-1)
        columns = torch.arange(2)
        low, high = (
            [values[columns, index] for values in self.knots()] for index in (bins, bins + 1)
        )
        return (*low, *high)

    def log_slope(self, xi: Any, s: Any, low: Any, high: Any) -> Any:
        """The logarithm of the slope of each entry."""
        top = high * xi.square() + 2 * s * xi * (1 - xi) + low * (1 - xi).square()
        bottom = s + (high + low - 2 * s) * xi * (1 - xi)
        return 2 * s.log() + top.log() - 2 * bottom.log()

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        refuse_other(x, 2)
        within = x.abs() <= self.bound
        inner = torch.where(within, x, 0.0)
        x0, y0, d0, x1, y1, d1 = self.parts(inner, self.knots()[0])
        s, xi = (y1 - y0) / (x1 - x0), (inner - x0) / (x1 - x0)
        bottom = s + (d1 + d0 - 2 * s) * xi * (1 - xi)
        y = y0 + (y1 - y0) * (s * xi.square() + d0 * xi * (1 - xi)) / bottom
        log_slope = torch.where(within, self.log_slope(xi, s, d0, d1), 0.0)
        return torch.where(within, y, x), log_slope.sum(-1)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        refuse_other(z, 2)
        within = z.abs() <= self.bound
        inner = torch.where(within, z, 0.0)
        x0, y0, d0, x1, y1, d1 = self.parts(inner, self.knots()[1])
        s, rise = (y1 - y0) / (x1 - x0), inner - y0
        bend = rise * (d1 + d0 - 2 * s)
        a, b, c = (y1 - y0) * (s - d0) + bend, (y1 - y0) * d0 - bend, -s * rise
        xi = 2 * c / (-b - (b.square() - 4 * a * c).clamp(min=0).sqrt())
        log_slope = torch.where(within, self.log_slope(xi, s, d0, d1), 0.0)
        return torch.where(within, x0 + xi * (x1 - x0), z), -log_slope.sum(-1)
