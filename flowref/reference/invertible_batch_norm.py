r"""Batch normalization as a layer of a flow: a map with a log-determinant, and an inverse in eval
mode.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from flowref.model import FlowrefError
from flowref.reference.batch_norm import (
    at_least_float32,
    check_count,
    check_input,
    moments,
    per_channel,
)
from flowref.reference.bijection import Bijection


class InverseNotAvailable(FlowrefError):
    """The inverse does not exist in the present mode."""


class InvertibleBatchNorm(Bijection):
    r"""Per channel, $y = w\,(x - \mu) / \sqrt{v + \epsilon} + b$ with a log-determinant.

    ladj: $S \sum_c (\log|w_c| - \tfrac12 \log(v_c + \epsilon))$ for events of $S$ positions ($H W$
    for images), with the $v$ that y was computed with.  Inverse:
    $x = (y - b) \sqrt{v + \epsilon} / w + \mu$.

    In eval mode $\mu, v$ are the running averages: a fixed affine map, whose ladj and inverse are
    exact. In train mode they are
    - ``stats="batch"``: mean and biased variance of the batch, and the averages move afterwards as
      in `BatchNorm`;
    - ``stats="running"``: the averages after the batch has entered them,
      $\mu = (1-m)\,r_\mu + m\,\mu_B$ and $v = (1-m)\,r_v
      + m\,\frac{n}{n-1}
      v_B$. The gradient passes through the batch, with the factor $m$; the old averages are
      constants.
    There rows depend on each other, and ladj is that of the map with $\mu$ and $v$ held fixed, no
    likelihood of the batch.

    Shapes: x and y `(N, C)`, `(N, C, L)`, `(N, C, H, W)` or `(N, C, D, H, W)`; ladj `(N,)`.  Units:
    nats.
    Raises: `InverseNotAvailable` from `inverse` in train mode, where $\mu$ and $v$ of the batch
    that gave y are unknown;
    `ValueError` and `TypeError` as `BatchNorm`, after which the averages are as they were.
    Source: Dinh et al. 2017, Real NVP (arXiv:1605.08803), section 3.7 and appendix E.

    >>> layer = InvertibleBatchNorm(2).eval()
    >>> y, ladj = layer(torch.ones(3, 2, 4, 4))
    >>> torch.allclose(layer.inverse(y)[0], torch.ones(3, 2, 4, 4))
    True
    """

    weight: Tensor | None
    bias: Tensor | None
    running_mean: Tensor
    running_var: Tensor

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        stats: Literal["batch", "running"] = "batch",
    ) -> None:
        super().__init__()
        if stats not in ("batch", "running"):
            raise ValueError(f"got stats={stats!r}; expected 'batch' or 'running'")
        self.num_features, self.eps, self.momentum, self.stats = num_features, eps, momentum, stats
        self.register_parameter(
            "weight", nn.Parameter(torch.ones(num_features)) if affine else None
        )
        self.register_parameter("bias", nn.Parameter(torch.zeros(num_features)) if affine else None)
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents, `(y, ladj)`; in train mode the averages are updated."""
        check_input(x, self.num_features)
        wide, mean, var = at_least_float32(x), self.running_mean, self.running_var
        if not self.training or x.numel() == 0:
            y, ladj = self._normalize(wide - per_channel(mean, x), var)
            return y.to(x.dtype), ladj.to(x.dtype)
        check_count(x)
        n = x.numel() // self.num_features
        batch_mean, centered, rest, batch_var = moments(wide)
        mean = (1 - self.momentum) * mean + self.momentum * batch_mean
        var = (1 - self.momentum) * var + self.momentum * batch_var * (n / (n - 1))
        if self.stats == "running":
            y, ladj = self._normalize(wide - per_channel(mean, x), var)
        else:
            y, ladj = self._normalize(centered - per_channel(rest, x), batch_var)
        self.running_mean.copy_(mean.detach())
        self.running_var.copy_(var.detach())
        return y.to(x.dtype), ladj.to(x.dtype)

    def inverse(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, ladj)`, in eval mode."""
        if self.training:
            raise InverseNotAvailable(
                "got a call of inverse in train mode, where forward normalizes by the statistics "
                "of a batch that inverse "
                "does not have; expected eval mode: call .eval() first"
            )
        check_input(y, self.num_features)
        wide, scale = at_least_float32(y), per_channel(self._scale(self.running_var), y)
        shifted = wide if self.bias is None else wide - per_channel(self.bias, y)
        x = shifted / scale + per_channel(self.running_mean, y)
        return x.to(y.dtype), -self._ladj(y, self.running_var).to(y.dtype)

    def _normalize(self, centered: Tensor, var: Tensor) -> tuple[Tensor, Tensor]:
        y = centered * per_channel(self._scale(var), centered)
        return y if self.bias is None else y + per_channel(self.bias, y), self._ladj(y, var)

    def _scale(self, var: Tensor) -> Tensor:
        scale = (var + self.eps).rsqrt()
        return scale if self.weight is None else scale * self.weight

    def _ladj(self, x: Tensor, var: Tensor) -> Tensor:
        logs = -0.5 * torch.log(var + self.eps)
        if self.weight is not None:
            logs = logs + self.weight.abs().log()
        return (x.shape[2:].numel() * logs.sum()).repeat(len(x))

    def extra_repr(self) -> str:
        """The options, for `repr`."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.weight is not None}, "
            f"stats={self.stats!r}"
        )
