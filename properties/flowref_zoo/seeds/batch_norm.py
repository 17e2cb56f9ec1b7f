"""Batch normalization as teaching notes write it, with the bugs that such code has, each of which
can be had alone.

The bugs are numbered like the claims of the two sets of notes that they come from: 000 (two layers
on flattened images) and 002 (a layer on vectors or images, and a backward pass written out by
hand). `batch_norm_rows` says which laws each of them breaks.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from flowref_zoo.seeds.bug_rows import ALL, chosen


def refuse_single(x: Any, values: int) -> None:
    """A variance needs two values; torch refuses a batch of one value per channel."""
    if values == 1:
        raise ValueError(
            "expected more than one value per channel when training, got an input of shape "
            f"{tuple(x.shape)}"
        )


class FlattenedBatchNorm(nn.Module):
    r"""$y = \gamma (x - \mu) / \sqrt{v + \epsilon} + \beta$ with the batch's own statistics, images
    flattened to sequences.

    Rows: 000-12, the variance is $E[x^2] - E[x]^2$, which cancels where the mean is large against
    the deviation;
    000-13, the number of channels is never compared with that of the parameters, which broadcast,
    and vectors are refused;
    000-14, a print is left in; 000-20, one value per channel is its own mean, so that the output is
    $\beta$ whatever comes in.
    Shapes: x `(batch, channels, *positions)`.
    """

    BUGS: tuple[str, ...] = ("000-12", "000-13", "000-14", "000-20")

    def __init__(self, num_channels: int = 3, eps: float = 1e-5, rows: str = ALL) -> None:
        super().__init__()
        self.rows = chosen(rows, self.BUGS)
        self.num_channels, self.eps = num_channels, eps
        self.gamma = nn.Parameter(torch.ones(1, num_channels, 1))
        self.beta = nn.Parameter(torch.zeros(1, num_channels, 1))

    def flattened(self, x: Any) -> Any:
        """All positions in one axis."""
        if "000-13" in self.rows:
            return x.flatten(2)
        if x.dim() < 2 or x.shape[1] != self.num_channels:
            raise ValueError(
                f"expected (batch, {self.num_channels}, *positions), got {tuple(x.shape)}"
            )
        return x.reshape(len(x), self.num_channels, x.shape[2:].numel())

    def moments(self, x: Any) -> tuple[Any, Any]:
        """Mean and variance of each channel over the batch and the positions."""
        if "000-20" not in self.rows:
            refuse_single(x, x.shape[0] * x.shape[2])
        mean = x.mean((0, 2), keepdim=True)
        if "000-12" in self.rows:
            return mean, x.square().mean((0, 2), keepdim=True) - mean.square()
        return mean, (x - mean).square().mean((0, 2), keepdim=True)

    def statistics(self, x: Any) -> tuple[Any, Any]:
        """What this batch is normalized with."""
        return self.moments(x)

    def forward(self, x: Any) -> Any:
        """Normalize a batch."""
        flat = self.flattened(x)
        mean, var = self.statistics(flat)
        standard = (flat - mean) / torch.sqrt(var + self.eps)
        if "000-14" in self.rows:
            print("shape after normalizing:", tuple(standard.shape))
        return (self.gamma * standard + self.beta).view(x.shape)


class AveragingBatchNorm(FlattenedBatchNorm):
    r"""The same with running averages for evaluation: $r \leftarrow (1 - m)\, r + m\, s$ for each
    statistic $s$ of a batch.

    Rows: 000-12, 000-13 and 000-20 as before, where an empty batch now spoils the averages for
    ever;
    000-15, the mode is an attribute that hides the method ``train``, so that neither train() nor
    eval() can be called;
    000-16, the averages keep the graph of every batch so far; 000-17, the variance that is averaged
    is the biased one.
    """

    BUGS = ("000-12", "000-13", "000-15", "000-16", "000-17", "000-20")
    running_mean: Any
    running_variance: Any

    def __init__(
        self, num_channels: int = 3, eps: float = 1e-5, momentum: float = 0.1, rows: str = ALL
    ) -> None:
        super().__init__(num_channels, eps, rows)
        self.momentum = momentum
        self.register_buffer("running_mean", torch.zeros(1, num_channels, 1))
        self.register_buffer("running_variance", torch.ones(1, num_channels, 1))
        if "000-15" in self.rows:
            vars(self)["train"] = True

    def is_training(self) -> bool:
        """The mode, from where it is kept."""
        return bool(vars(self)["train"] if "000-15" in self.rows else self.training)

    def statistics(self, x: Any) -> tuple[Any, Any]:
        """Those of the batch in train mode, which enter the averages; the averages in eval mode."""
        if not self.is_training():
            return self.running_mean, self.running_variance
        mean, var = self.moments(x)
        self.update(mean, var, x.shape[0] * x.shape[2])
        return mean, var

    def update(self, mean: Any, var: Any, values: int) -> None:
        """Let the statistics of a batch enter the averages."""
        if not values and "000-20" not in self.rows:
            return
        kept = var if "000-17" in self.rows else var * values / max(values - 1, 1)
        if "000-16" in self.rows:
            self.running_mean = (1 - self.momentum) * self.running_mean + self.momentum * mean
            self.running_variance = (
                1 - self.momentum
            ) * self.running_variance + self.momentum * kept
            return
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_variance.lerp_(kept, self.momentum)


class _HandWritten(torch.autograd.Function):
    """Normalization by the statistics of the batch, with the backward pass of the paper, step by
    step, as the notes print it.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Any,
        gamma: Any,
        beta: Any,
        mean: Any,
        var: Any,
        axes: Any,
        eps: float,
        power: float,
        shifted: float,
    ) -> Any:
        ctx.save_for_backward(x, gamma, mean, var)
        ctx.settings = axes, eps, power, shifted
        return gamma * ((x - mean) / torch.sqrt(var + eps)) + beta

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Any) -> Any:
        x, gamma, mean, var = ctx.saved_tensors
        axes, eps, power, shifted = ctx.settings

        def total(value: Any) -> Any:
            return value.sum(axes, keepdim=True)

        count = x.numel() // mean.numel()
        centered, inverse = x - mean, 1 / torch.sqrt(var + eps)
        standard = dy * gamma
        by_var = total(standard * centered) * -0.5 * (var + eps) ** power
        by_mean = (
            -total(standard) / torch.sqrt(var + shifted) - 2 * by_var * total(centered) / count
        )
        by_x = standard * inverse + 2 * by_var * centered / count + by_mean / count
        return by_x, total(dy * centered * inverse), total(dy), *(None,) * 6


class GradientModeBatchNorm(nn.Module):
    r"""Batch normalization of vectors (``num_dims=2``) or images (4), trained by a backward pass
    written out by hand.

    Rows: 002-3, $\partial v$ has $(v + \epsilon)^{3/2}$ for $(v + \epsilon)^{-3/2}$; 002-4,
    $\partial\mu$ has $1 / \sqrt{v}$ for $1 / \sqrt{v + \epsilon}$; 002-8, the mode is whether
    gradients are enabled; 002-9, the averages are plain attributes, which are not saved, cast or
    moved; 002-10, the variance that is averaged is the biased one; 002-11, the rank is looked at in
    training only and the number of channels never; 002-14, one value per channel, or none, is
    normalized.
    """

    BUGS = ("002-3", "002-4", "002-8", "002-9", "002-10", "002-11", "002-14")
    EPS, KEPT = 1e-5, 0.9
    moving_mean: Any
    moving_var: Any

    def __init__(
        self,
        num_features: int = 3,
        num_dims: int = 4,
        eps: float = EPS,
        rows: str = ALL,
        power: float | None = None,
    ) -> None:
        super().__init__()
        self.rows = chosen(rows, self.BUGS)
        self.num_features, self.num_dims, self.eps = num_features, num_dims, eps
        # The exponent of v + eps in the derivative by the variance.
        self.power = power if power is not None else 1.5 if "002-3" in self.rows else -1.5
        shape = (1, num_features) if num_dims == 2 else (1, num_features, 1, 1)
        self.gamma = nn.Parameter(torch.ones(shape))
        self.beta = nn.Parameter(torch.zeros(shape))
        if "002-9" in self.rows:
            self.moving_mean, self.moving_var = torch.zeros(shape), torch.ones(shape)
        else:
            self.register_buffer("moving_mean", torch.zeros(shape))
            self.register_buffer("moving_var", torch.ones(shape))

    def update(self, mean: Any, var: Any, values: int) -> None:
        """Let the statistics of a batch enter the averages."""
        if not values and "002-14" not in self.rows:
            return
        kept = var if "002-10" in self.rows else var * values / max(values - 1, 1)
        with torch.no_grad():
            mean = self.KEPT * self.moving_mean + (1 - self.KEPT) * mean
            var = self.KEPT * self.moving_var + (1 - self.KEPT) * kept
        if "002-9" in self.rows:
            self.moving_mean, self.moving_var = mean, var
        else:
            self.moving_mean.copy_(mean)
            self.moving_var.copy_(var)

    def forward(self, x: Any) -> Any:
        """Normalize a batch."""
        training = torch.is_grad_enabled() if "002-8" in self.rows else self.training
        if "002-11" in self.rows:
            if training and x.dim() not in (2, 4):
                raise AssertionError(f"rank {x.dim()}")
        elif x.dim() != self.num_dims or x.shape[1] != self.num_features:
            raise ValueError(
                f"expected rank {self.num_dims} and {self.num_features} channels, got "
                f"{tuple(x.shape)}"
            )
        if self.moving_mean.device != x.device:
            self.moving_mean, self.moving_var = (
                self.moving_mean.to(x.device),
                self.moving_var.to(x.device),
            )
        if not training:
            return (
                self.gamma * ((x - self.moving_mean) / torch.sqrt(self.moving_var + self.eps))
                + self.beta
            )
        return self.normalized(x)

    def normalized(self, x: Any) -> Any:
        """Normalize by the statistics of the batch, which enter the averages."""
        axes = (0,) if x.dim() == 2 else (0, 2, 3)
        values = x.numel() // max(x.shape[1], 1)
        if "002-14" not in self.rows:
            refuse_single(x, values)
        mean = x.detach().mean(axes, keepdim=True)
        var = (x.detach() - mean).square().mean(axes, keepdim=True)
        self.update(mean, var, values)
        shifted = 0.0 if "002-4" in self.rows else self.eps
        apply: Any = _HandWritten.apply
        return apply(x, self.gamma, self.beta, mean, var, axes, self.eps, self.power, shifted)
