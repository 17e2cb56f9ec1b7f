"""Rational-quadratic splines: increasing maps of a box to itself, ratios of quadratics between
knots, for each entry separately or as functions of the entries that a coupling keeps.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, softplus

from flowref.reference.bijection import Bijection, check_event, over_event
from flowref.reference.coupling import Partition, conditioned

Tails = Literal["linear"] | None
# The smallest width and height of a bin, relative to the box, and the smallest slope.
LEAST = 1e-3


class Knots(NamedTuple):
    """The knots of splines: x and y increasing, slopes positive; each `(..., K + 1)` for K bins."""

    x: Tensor
    y: Tensor
    slope: Tensor


def knots_of(raw: Tensor, bins: int, bound: float) -> Knots:
    r"""Knots from unconstrained numbers `(..., 3K - 1)`: K widths, K heights and K - 1 slopes.

    Widths and heights are $2B\,(m + (1 - Km)\,\mathrm{softmax})$ with $m$ = 1e-3, slopes $m +
    \mathrm{softplus}$; the outer slopes are 1, and zeros give the identity.
    """
    widths, heights, slopes = raw.split([bins, bins, bins - 1], -1)
    at_zero = math.log(math.expm1(1 - LEAST))  # softplus of it is a slope of 1
    inner = LEAST + softplus(slopes + at_zero)
    return Knots(
        _bin_edges(widths, bound), _bin_edges(heights, bound), pad(inner, (1, 1), value=1.0)
    )


def _bin_edges(raw: Tensor, bound: float) -> Tensor:
    bins = raw.shape[-1]
    shares = LEAST + (1 - bins * LEAST) * raw.softmax(-1)
    # The last end is the bound itself, not a rounded sum.
    inner = 2 * bound * shares[..., :-1].cumsum(-1) - bound
    return pad(pad(inner, (1, 0), value=-bound), (0, 1), value=bound)


def rational_quadratic(x: Tensor, knots: Knots) -> tuple[Tensor, Tensor]:
    r"""In the bin of x, with $\xi = (x - x_k)/w$ and $s = h/w$:
    $y = y_k + h\,\frac{s\xi^2 + d_k\xi(1 - \xi)}{s + (d_{k+1} + d_k - 2s)\,\xi(1 - \xi)}$.

    The logarithm of the slope: $2\log s + \log(d_{k+1}\xi^2 + 2s\xi(1-\xi) + d_k(1-\xi)^2)$ minus
    twice that of the denominator.
    Shapes: x `(...)` within the box, knots `(..., K + 1)`; value and log-slope `(...)`.
    Source: Durkan et al. 2019, Neural Spline Flows (arXiv:1906.04032), section 3.1.
    """
    low, high = _bin(x, knots.x, knots)
    w, h = high.x - low.x, high.y - low.y
    s, xi = h / w, (x - low.x) / w
    y = low.y + h * (s * xi.square() + low.slope * xi * (1 - xi)) / _bottom(s, xi, low, high)
    return y, _log_slope(s, xi, low, high)


def rational_quadratic_inverse(y: Tensor, knots: Knots) -> tuple[Tensor, Tensor]:
    r"""The root of $a\xi^2 + b\xi + c = 0$ in [0, 1] as $2c / (-b - \sqrt{b^2 - 4ac})$, without
    cancellation, and minus the log-slope there; y and results `(...)`, knots `(..., K + 1)`.
    """
    low, high = _bin(y, knots.y, knots)
    w, h, rise = high.x - low.x, high.y - low.y, y - low.y
    s = h / w
    bend = rise * (high.slope + low.slope - 2 * s)
    a, b, c = h * (s - low.slope) + bend, h * low.slope - bend, -s * rise
    # A discriminant of zero can round to a negative number.
    root = (b.square() - 4 * a * c).clamp(min=0).sqrt()
    xi = (2 * c / (-b - root)).clamp(0, 1)
    return low.x + xi * w, -_log_slope(s, xi, low, high)


def _bin(x: Tensor, ends: Tensor, knots: Knots) -> tuple[Knots, Knots]:
    """The knots at both ends of the bin of each point."""
    index = (x[..., None] >= ends[..., 1:-1]).sum(-1, keepdim=True)
    both = torch.cat((index, index + 1), -1)
    taken = [values.expand(*x.shape, -1).gather(-1, both) for values in knots]
    return Knots(*(pair[..., 0] for pair in taken)), Knots(*(pair[..., 1] for pair in taken))


def _bottom(s: Tensor, xi: Tensor, low: Knots, high: Knots) -> Tensor:
    return s + (high.slope + low.slope - 2 * s) * xi * (1 - xi)


def _log_slope(s: Tensor, xi: Tensor, low: Knots, high: Knots) -> Tensor:
    top = high.slope * xi.square() + 2 * s * xi * (1 - xi) + low.slope * (1 - xi).square()
    return 2 * s.log() + top.log() - 2 * _bottom(s, xi, low, high).log()


class SplineLayer(Bijection):
    """The base of spline layers: box, bins and tails."""

    def __init__(self, bins: int, bound: float, tails: Tails) -> None:
        super().__init__()
        if not 2 <= bins < 1 / LEAST or not 0 < bound < math.inf or tails not in ("linear", None):
            raise ValueError(
                f"got bins={bins}, bound={bound}, tails={tails!r}; expected 2 to {1 / LEAST:.0f} bins, a "
                "positive bound, and tails 'linear' or None"
            )
        self.bins, self.bound, self.tails = bins, float(bound), tails

    @property
    def numbers(self) -> int:
        """The number of parameters of one spline, 3K - 1."""
        return 3 * self.bins - 1

    def spline(self, x: Tensor, raw: Tensor, back: bool = False) -> tuple[Tensor, Tensor]:
        """Value and log-slope of each entry, from numbers `(..., 3K - 1)`. Outside the box: the
        entry itself and 0, or without tails `ValueError`, and nan in compiled code.
        """
        within = x.abs() <= self.bound
        if self.tails is None and not torch.compiler.is_compiling() and not bool(within.all()):
            raise ValueError(
                f"got values from {float(x.min()):g} to {float(x.max()):g} for a spline without tails; "
                f"expected all in [-{self.bound:g}, {self.bound:g}], or tails='linear'"
            )
        knots = knots_of(raw, self.bins, self.bound)
        # Zero is inside the box, so the branch that is not selected has a finite gradient.
        inside = torch.where(within, x, 0.0)
        run = rational_quadratic_inverse if back else rational_quadratic
        value, log_slope = run(inside, knots)
        # Compiled code cannot raise: without tails, points outside the box become nan.
        outside = x if self.tails else torch.full_like(x, math.nan)
        flat = 0.0 if self.tails else math.nan
        return torch.where(within, value, outside), torch.where(within, log_slope, flat)

    def extra_repr(self) -> str:
        """The options, for `repr`."""
        return f"bins={self.bins}, bound={self.bound}, tails={self.tails!r}"


class Spline(SplineLayer):
    """A separate spline for each entry, on $[-B, B]$; with linear tails the identity outside.

    ladj: the sum of the logarithms of the slopes.  Inverse: the root of a quadratic.
    Starts as the identity.
    Shapes: x and z `(N, *event_shape)`, ladj `(N,)`, raw `(*event_shape, 3K - 1)`.  Units: nats.
    Raises: `ValueError` for events of another shape, and without tails for a point outside the box.
    Source: Durkan et al. 2019, Neural Spline Flows (arXiv:1906.04032), section 3.
    """

    def __init__(
        self,
        event_shape: tuple[int, ...],
        bins: int = 8,
        bound: float = 3.0,
        tails: Tails = "linear",
    ) -> None:
        super().__init__(bins, bound, tails)
        self.event_shape = tuple(event_shape)
        self.raw = nn.Parameter(torch.zeros(*self.event_shape, self.numbers))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, ladj)`."""
        check_event(x, self.event_shape, "a spline")
        z, log_slope = self.spline(x, self.raw)
        return z, over_event(log_slope)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, ladj)`."""
        check_event(z, self.event_shape, "a spline")
        x, log_slope = self.spline(z, self.raw, back=True)
        return x, over_event(log_slope)


class SplineCoupling(SplineLayer):
    r"""With $x_a$ kept and $x_b$ transformed: $z_b = \mathrm{spline}(x_b; \theta(x_a))$,
    $z_a = x_a$.

    ladj: the sum of the logarithms of the slopes over the transformed entries.
    Shapes: as `AffineCoupling`, the conditioner giving 3K - 1 numbers for each transformed entry,
    stacked along axis 1: first the first number of all entries, and so on.
    Raises: `ValueError` as `AffineCoupling`, and without tails for a point outside the box.
    Source: Durkan et al. 2019, Neural Spline Flows (arXiv:1906.04032), section 3.
    """

    def __init__(
        self,
        mask: Tensor,
        conditioner: nn.Module,
        bins: int = 8,
        bound: float = 3.0,
        tails: Tails = "linear",
    ) -> None:
        super().__init__(bins, bound, tails)
        self.partition, self.conditioner = Partition(mask), conditioner

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, ladj)`."""
        return self._transformed(x, back=False)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, ladj)`."""
        return self._transformed(z, back=True)

    def _transformed(self, x: Tensor, back: bool) -> tuple[Tensor, Tensor]:
        kept, changed = self.partition.split(x)
        raw = conditioned(self.conditioner, kept, changed, self.numbers)
        raw = raw.unflatten(1, (self.numbers, changed.shape[1])).movedim(1, -1)
        value, log_slope = self.spline(changed, raw, back)
        return self.partition.join(kept, value, x), over_event(self.partition.free(log_slope))
