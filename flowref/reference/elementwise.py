r"""Elementwise maps: affine, exponential, logit and sigmoid, whose log-dets are sums over the
event.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from flowref.reference.bijection import Bijection, Inverse, over_event, repeated_log_det


class Affine(Bijection):
    r"""$z = a + s \odot x$ with constants $a$ (shift) and $s$ (scale), numbers or tensors that
    broadcast to an event.

    ladj: $\sum_i \log|s_i|$ over the entries of the event.  Inverse: $x = (z - a) / s$.
    Shapes: x and z `(N, *event)`, ladj `(N,)`.  Units: nats.
    Raises: `ValueError` if an entry of the scale is zero or not finite.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, shift: Tensor | float, scale: Tensor | float) -> None:
        super().__init__()
        # Buffers have the default dtype for every dtype of the arguments: a module has one dtype.
        self.register_buffer("shift", torch.as_tensor(shift, dtype=torch.get_default_dtype()))
        self.register_buffer("scale", torch.as_tensor(scale, dtype=torch.get_default_dtype()))
        if not bool((self.scale.isfinite() & (self.scale != 0)).all()):
            raise ValueError(
                "got a scale with an entry that is zero or not finite; expected numbers to divide "
                "by"
            )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, ladj)`."""
        return self.shift + self.scale * x, self._ladj(x)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, ladj)`."""
        return (z - self.shift) / self.scale, -self._ladj(z)

    def _ladj(self, x: Tensor) -> Tensor:
        return repeated_log_det(self.scale.abs().log().expand(x.shape[1:]).sum(), x)


class Exp(Bijection):
    r"""$z = e^{x}$, from the reals to the positive numbers.

    ladj: $\sum_i x_i$.  Inverse: $x = \log z$, with ladj $-\sum_i \log z_i$.
    Raises: `ValueError` from `inverse` for a number that is not positive.
    """

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, ladj)`."""
        return x.exp(), over_event(x)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, ladj)`."""
        check_between(z, 0.0, math.inf)
        x = z.log()
        return x, -over_event(x)


class Logit(Bijection):
    r"""Bounded data to the reals: $h = \log\frac{p}{1-p}$ of $p = \alpha + (1 - 2\alpha)\,x / b$.

    ladj: $\sum_i \log\frac{1 - 2\alpha}{b} + \log(1 + e^{h_i}) + \log(1 + e^{-h_i})$.
    Inverse: $x = b\,(p - \alpha)/(1 - 2\alpha)$ with $p = 1 / (1 + e^{-h})$.

    With $\alpha > 0$ both ends of $[0, b]$ are inside the domain, which reaches beyond them by
    $b\,\alpha / (1 - 2\alpha)$: pixels of value 0 stay finite, and so do those that rounding takes
    to $b$.
    Shapes: x and h `(N, *event)`, ladj `(N,)`.  Units: nats, with x in pixel values where $b$ is
    the number of levels.
    Raises: `ValueError` for data outside the domain.
    Source: Dinh et al. 2017, Real NVP (arXiv:1605.08803), section 4.1, which has
    $\alpha + (1 - \alpha)\,x / 256$; the symmetric form keeps the upper end finite as well.
    """

    def __init__(self, alpha: float = 0.05, bound: float = 256.0) -> None:
        super().__init__()
        if not (0 <= alpha < 0.5 and bound > 0):
            raise ValueError(
                f"got alpha={alpha}, bound={bound}; expected 0 <= alpha < 0.5 and a positive bound"
            )
        self.alpha, self.bound = alpha, bound
        self.slope = (1 - 2 * alpha) / bound

    @property
    def domain(self) -> tuple[float, float]:
        """The open interval that is mapped onto the reals."""
        margin = self.alpha / self.slope
        return -margin, self.bound + margin

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents, `(h, ladj)`."""
        check_between(x, *self.domain)
        # Each logarithm takes the distance to the nearer end, which 1 - p would lose to
        # cancellation.
        low, high = self.alpha + self.slope * x, self.alpha + self.slope * (self.bound - x)
        h = low.log() - high.log()
        return h, self._ladj(h)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, ladj)`."""
        return (z.sigmoid() - self.alpha) / self.slope, -self._ladj(z)

    def _ladj(self, h: Tensor) -> Tensor:
        return over_event(math.log(self.slope) + softplus(h) + softplus(-h))

    def extra_repr(self) -> str:
        """The options, for `repr`."""
        return f"alpha={self.alpha}, bound={self.bound}"


class Sigmoid(Inverse):
    r"""The reals to a bounded set, $b\,(\sigma(h) - \alpha) / (1 - 2\alpha)$: the inverse of
    `Logit`; by default to (0, 1).
    """

    def __init__(self, alpha: float = 0.0, bound: float = 1.0) -> None:
        super().__init__(Logit(alpha, bound))


def check_between(x: Tensor, low: float, high: float) -> None:
    """Raises `ValueError` if a number lies outside the open interval; NaN passes, as in
    arithmetic.
    """
    if torch.compiler.is_compiling() or x.numel() == 0:
        return  # a compiled graph cannot branch on values
    if bool(((x <= low) | (x >= high)).any()):
        least, most = x.aminmax()
        raise ValueError(
            f"got values from {least:g} to {most:g}; expected all strictly between {low:g} and "
            f"{high:g}"
        )
