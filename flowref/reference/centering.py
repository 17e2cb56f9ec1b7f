"""Centering without a gradient through the mean: a demonstration of its failure."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class StopGradientCentering(nn.Module):
    r"""A bias followed by centering with a detached mean: $x = u + b$, $\hat x = x -
    \mathrm{sg}(\bar x)$ (sg: stop gradient).

    Neither $\hat x$ nor the loss depends on $b$, since centering removes it. Yet with a detached
    mean $\partial L / \partial b = \sum_i \partial L / \partial \hat x_i$, the same for every $b$:
    after $t$ steps of gradient descent $b_t = b_0 - t \eta\, \partial L / \partial b$ has grown
    without bound at a constant loss. With the gradient of the mean, $\partial \hat x_i / \partial
    x_j = \delta_{ij} - 1/m$, whose rows sum to 0: the gradient of $b$ is 0, and $b$ stays.

    Shapes: u and $\hat x$ `(N, features)`.
    Source: Ioffe and Szegedy 2015, Batch Normalization (arXiv:1502.03167), section 2.
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, u: Tensor) -> Tensor:
        """Adds the bias and subtracts the detached mean of the batch."""
        x = u + self.bias
        return x - x.mean(0).detach()
