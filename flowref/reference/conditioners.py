"""Conditioners: the networks inside coupling layers, which need no inverse and no Jacobian."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, relu

from flowref.reference.batch_norm import BatchNorm

Norm = Literal["instance", "batch"] | None


class MLP(nn.Sequential):
    r"""Linear layers with an activation between them; the last starts at zero, so that a coupling
    starts as the identity.

    Shapes: `(N, inputs)` to `(N, outputs)`.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        hidden: Sequence[int] = (64, 64),
        activation: type[nn.Module] = nn.ReLU,
    ) -> None:
        sizes = [inputs, *hidden, outputs]
        layers: list[nn.Module] = []
        for before, after in pairwise(sizes):
            layers += [nn.Linear(before, after), activation()]
        super().__init__(*layers[:-1])
        last = layers[-2]
        assert isinstance(last, nn.Linear)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)


class WeightNormalizedConv2d(nn.Conv2d):
    r"""A convolution with weights $g_o\, v_o / \|v_o\|$ per output channel $o$.

    Source: Salimans and Kingma 2016, Weight Normalization (arXiv:1602.07868), section 2.
    """

    def __init__(self, inputs: int, outputs: int, size: int, bias: bool = True) -> None:
        super().__init__(inputs, outputs, size, padding=size // 2, bias=bias)
        self.gain = nn.Parameter(self._norm().detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        """Convolves x `(N, inputs, H, W)`, with padding that keeps height and width."""
        return conv2d(x, self.weight * (self.gain / self._norm()), self.bias, padding=self.padding)

    def _norm(self) -> Tensor:
        norm: Tensor = torch.linalg.vector_norm(self.weight, dim=(1, 2, 3), keepdim=True)
        return norm


class BasicBlock(nn.Module):
    r"""$x + c_2(\mathrm{relu}(n_2(c_1(\mathrm{relu}(n_1(x))))))$ with norms $n$ and 3x3
    convolutions $c$.

    Source: He et al. 2016, Identity Mappings in Deep Residual Networks (arXiv:1603.05027).
    """

    def __init__(self, channels: int, norm: Norm) -> None:
        super().__init__()
        self.first_norm, self.second_norm = norm_layer(norm, channels), norm_layer(norm, channels)
        # A norm removes the bias before it.
        self.first = WeightNormalizedConv2d(channels, channels, 3, bias=norm is None)
        self.second = WeightNormalizedConv2d(channels, channels, 3)

    def forward(self, x: Tensor) -> Tensor:
        """The block with its shortcut, `(N, channels, H, W)`."""
        inner = self.first(relu(self.first_norm(x)))
        residual: Tensor = self.second(relu(self.second_norm(inner)))
        return x + residual


class ResNet(nn.Module):
    r"""A 3x3 convolution, basic blocks, and a 1x1 convolution that starts at zero; all of them
    weight-normalized.

    ``norm``: "instance", "batch" (the rows of a batch then depend on each other in train mode) or
    None.
    Shapes: `(N, inputs, H, W)` to `(N, outputs, H, W)`.
    Source: Dinh et al. 2017, Real NVP (arXiv:1605.08803), section 4.1.
    """

    def __init__(
        self, inputs: int, outputs: int, hidden: int = 64, blocks: int = 4, norm: Norm = "instance"
    ) -> None:
        super().__init__()
        self.enter = WeightNormalizedConv2d(inputs, hidden, 3)
        self.blocks = nn.Sequential(*(BasicBlock(hidden, norm) for _ in range(blocks)))
        self.norm = norm_layer(norm, hidden)
        self.leave = WeightNormalizedConv2d(hidden, outputs, 1)
        nn.init.zeros_(self.leave.gain)
        assert self.leave.bias is not None
        nn.init.zeros_(self.leave.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Maps `(N, inputs, H, W)` to `(N, outputs, H, W)`."""
        out: Tensor = self.leave(relu(self.norm(self.blocks(self.enter(x)))))
        return out


def norm_layer(norm: Norm, channels: int) -> nn.Module:
    """Returns the image normalization of a name; raises `ValueError` for others."""
    if norm == "instance":
        return nn.GroupNorm(channels, channels)
    if norm == "batch":
        return BatchNorm(channels)
    if norm is None:
        return nn.Identity()
    raise ValueError(f"got norm={norm!r}; expected 'instance', 'batch' or None")
