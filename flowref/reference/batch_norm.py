r"""Batch normalization: per channel, $y = w\,(x - \mu) / \sqrt{v + \epsilon} + b$."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class BatchNorm(nn.Module):
    r"""Normalize each channel by the mean and variance of the batch in train mode, by their running
    averages in eval mode.

    With $n$ values per channel, $\mu = \frac1n \sum_i x_i$ and $v = \frac1n \sum_i (x_i - \mu)^2$
    (see `moments`). In train mode the averages then move, $r_\mu \leftarrow (1-m)\,r_\mu + m\,\mu$
    and $r_v \leftarrow (1-m)\,r_v + m\,\frac{n}{n-1} v$, with momentum $m$, or with $m = 1/t$ at
    batch $t$ if it is None: the plain average. Without running statistics the batch's serve in both
    modes.

    Shapes: x and y `(N, C)`, `(N, C, L)`, `(N, C, H, W)` or `(N, C, D, H, W)`; weight, bias,
    running_mean, running_var `(C,)`.
    Options and state_dict are those of `torch.nn.BatchNorm1d`, `2d` and `3d`. Half precision is
    computed in float32.
    An empty batch gives an empty y, and is not counted as a batch.
    Raises: `ValueError` for a wrong rank or number of channels, and for one value per channel where
    the batch normalizes;
    `TypeError` for what is not floating point. A call that raises leaves the running statistics as
    they were.
    Source: Ioffe and Szegedy 2015, Batch Normalization (arXiv:1502.03167), algorithms 1 and 2.

    >>> y = BatchNorm(3)(torch.randn(16, 3, 4, 4))
    >>> bool(y.mean((0, 2, 3)).abs().max() < 1e-6)
    True
    """

    _version = 2  # of the state_dict, as in torch: since version 2 it holds num_batches_tracked
    weight: Tensor | None
    bias: Tensor | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        empty, kept = torch.empty(num_features, device=device, dtype=dtype), track_running_stats
        counter = torch.empty((), device=device, dtype=torch.long)
        self.register_parameter("weight", nn.Parameter(empty.clone()) if affine else None)
        self.register_parameter("bias", nn.Parameter(empty.clone()) if affine and bias else None)
        self.register_buffer("running_mean", empty.clone() if kept else None)
        self.register_buffer("running_var", empty.clone() if kept else None)
        self.register_buffer("num_batches_tracked", counter if kept else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset weight to 1, bias to 0, and the running statistics."""
        self.reset_running_stats()
        if self.weight is not None:
            nn.init.ones_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def reset_running_stats(self) -> None:
        """Reset the running mean to 0, the variance to 1, and the number of batches to 0."""
        for buffer, start in (
            (self.running_mean, 0),
            (self.running_var, 1),
            (self.num_batches_tracked, 0),
        ):
            if buffer is not None:
                buffer.fill_(start)

    def forward(self, x: Tensor) -> Tensor:
        """Normalizes x `(N, C, ...)`; updates the running statistics in train mode."""
        check_input(x, self.num_features)
        wide = at_least_float32(x)
        if self.training or self.running_mean is None or self.running_var is None:
            check_count(x)
            mean, centered, rest, var = moments(wide)
        else:
            # The mean is subtracted within the shift, which saves memory; the loss of accuracy is
            # of the order of the rounding of x.
            mean, var = self.running_mean, self.running_var
            centered, rest = wide, mean
        scale = (var + self.eps).rsqrt()
        if self.weight is not None:
            scale = scale * self.weight
        shift = -rest * scale if self.bias is None else self.bias - rest * scale
        y = (centered * per_channel(scale, x)).add_(per_channel(shift, x))
        if self.training and self.track_running_stats and x.numel() > 0:
            self._track(
                mean, var, x.numel() // self.num_features
            )  # last, after everything that could raise
        return y.to(x.dtype)

    @torch.no_grad()
    def _track(self, mean: Tensor, var: Tensor, n: int) -> None:
        """Moves the running statistics towards those of a batch with n values per channel."""
        assert (
            self.running_mean is not None
            and self.running_var is not None
            and self.num_batches_tracked is not None
        )
        kind = self.running_mean.dtype
        # The count stays a tensor: reading it as a number would break a compiled graph.
        rate = (
            1 / (self.num_batches_tracked + 1).to(kind) if self.momentum is None else self.momentum
        )
        self.running_mean.lerp_(mean.to(kind), rate)
        self.running_var.lerp_((var * (n / (n - 1))).to(kind), rate)
        self.num_batches_tracked.add_(1)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, metadata: Any, *others: Any
    ) -> None:
        """A state_dict of version 1 has no counter, which is then 0."""
        if self.num_batches_tracked is not None and (metadata.get("version") or 1) < 2:
            state_dict.setdefault(f"{prefix}num_batches_tracked", torch.tensor(0))
        super()._load_from_state_dict(state_dict, prefix, metadata, *others)

    def extra_repr(self) -> str:
        """The options, for `repr`."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


def moments(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""Mean $\mu$, $x - k$, $\mu - k$ and biased variance of each channel, in two passes; 0 for an
    empty batch.

    $\mu = k + E[x - k]$ and $v = E[(x - k)^2] - E[x - k]^2$ hold for every constant $k$. With $k =
    0$, one pass, no digit of $v$ is right if $|\mu| / \sqrt v$ is large. Here $k$ is the rounded
    mean, and the terms with $E[x - k]$ correct for its rounding. Since the equations do not depend
    on $k$, it needs no gradient.

    Shapes: x `(N, C, ...)`; mean, rest and variance `(C,)`.
    Source: Chan, Golub and LeVeque 1983, Algorithms for computing the sample variance: the
    corrected two-pass algorithm.
    """
    axes, n = [0, *range(2, x.dim())], max(x.numel() // x.shape[1], 1)
    center = x.detach().sum(axes) / n
    centered = x - per_channel(center, x)
    rest = centered.sum(axes) / n
    var = centered.square().sum(axes) / n - rest.square()
    return center + rest, centered, rest, var.clamp(min=0)


def at_least_float32(x: Tensor) -> Tensor:
    """Returns x in float32 if it is narrower: sums and squares in float16 overflow, and bfloat16
    has 8 bits.
    """
    return x.to(torch.promote_types(x.dtype, torch.float32))


def per_channel(values: Tensor, x: Tensor) -> Tensor:
    """Reshapes values `(C,)` to `(1, C, 1, ...)`, so that they broadcast along axis 1 of x."""
    return values.view(1, -1, *[1] * (x.dim() - 2))


def check_input(x: Tensor, num_features: int) -> None:
    """Raises `ValueError` or `TypeError` unless x is a floating batch of events with
    ``num_features`` channels; broadcasting would hide it.
    """
    if not 2 <= x.dim() <= 5:
        raise ValueError(
            f"got an input of rank {x.dim()}, shape {tuple(x.shape)}; expected rank 2 to 5: "
            "(N, C), (N, C, L), (N, C, H, W) or (N, C, D, H, W)"
        )
    if x.shape[1] != num_features:
        raise ValueError(
            f"got {x.shape[1]} channels in axis 1 of the shape {tuple(x.shape)}; expected "
            f"num_features={num_features}"
        )
    if not x.is_floating_point():
        raise TypeError(f"got {x.dtype}; expected a floating dtype, such as that of x.float()")


def check_count(x: Tensor) -> None:
    """Raises `ValueError` for a batch with a single value per channel: its variance is 0, and y
    would be the bias for every x.
    """
    if x.numel() == x.shape[1]:
        raise ValueError(
            f"got one value per channel, shape {tuple(x.shape)}; expected more than one where the "
            "batch normalizes itself; "
            "pass a larger batch, or call .eval() on a layer that tracks running statistics"
        )
