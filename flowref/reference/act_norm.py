r"""Activation normalization: per channel $y = (x - a)\,e^{s}$, initialized so that the first batch
is standardized.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from flowref.reference.batch_norm import at_least_float32, check_input, moments, per_channel
from flowref.reference.bijection import Bijection


class ActNorm(Bijection):
    r"""Per channel, $y = (x - a)\,e^{s}$ with parameters $a$ (shift) and $s$ (log_scale).

    ladj: $S \sum_c s_c$ for events of $S$ positions ($H W$ for images). Inverse: $x = y\,e^{-s} +
    a$.

    The first batch in train mode sets $a = \mu$ and $s = -\tfrac12 \log v$, with mean and biased
    variance of its channels; before that the map is the identity. A channel that is constant up to
    rounding keeps $s = 0$, and one with an infinity or a NaN keeps $a = s = 0$: training could not
    correct a scale taken from either. ``initialized`` is part of the state.

    Shapes: x and y `(N, C)`, `(N, C, L)`, `(N, C, H, W)` or `(N, C, D, H, W)`; ladj `(N,)`.  Units:
    nats.
    Raises: `ValueError` for a wrong rank or number of channels.
    Source: Kingma and Dhariwal 2018, Glow (arXiv:1807.03039), section 3.1; there $y = e^{s} x + b$,
    with $b = -a\,e^{s}$.

    >>> y, ladj = ActNorm(3)(5 + 2 * torch.randn(64, 3))
    >>> bool(y.mean(0).abs().max() < 1e-5)
    True
    """

    initialized: Tensor

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.num_features = num_features
        self.log_scale = nn.Parameter(torch.zeros(num_features))
        self.shift = nn.Parameter(torch.zeros(num_features))
        self.register_buffer("initialized", torch.tensor(False))

    @torch.no_grad()
    def initialize(self, x: Tensor) -> None:
        """Set shift and log_scale from a batch."""
        mean, _, _, var = moments(at_least_float32(x))
        # Rounding alone gives a constant channel a deviation of this order.
        noise = torch.finfo(x.dtype).eps * mean.abs()
        spread = var.isfinite() & (var > torch.finfo(x.dtype).tiny) & (var.sqrt() > noise)
        self.shift.copy_(torch.where(var.isfinite(), mean, 0.0))
        self.log_scale.copy_(torch.where(spread, -0.5 * torch.log(var), 0.0))
        self.initialized.fill_(True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents, `(y, ladj)`."""
        check_input(x, self.num_features)
        if self.training and x.numel() > 0 and not self.initialized:
            self.initialize(x)
        return (x - per_channel(self.shift, x)) * per_channel(self.log_scale.exp(), x), self._ladj(
            x
        )

    def inverse(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, ladj)`."""
        check_input(y, self.num_features)
        return y * per_channel(torch.exp(-self.log_scale), y) + per_channel(
            self.shift, y
        ), -self._ladj(y)

    def _ladj(self, x: Tensor) -> Tensor:
        return (x.shape[2:].numel() * self.log_scale.sum()).repeat(len(x))

    def extra_repr(self) -> str:
        """The options, for `repr`."""
        return str(self.num_features)
