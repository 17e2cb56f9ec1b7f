r"""What goes wrong when the gradient does not pass through the statistics: a demonstration, no
layer to use.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class StopGradientCentering(nn.Module):
    r"""A bias that is centered away, while its gradient does not know: $x = u + b$,
    $\hat x = x - \mathrm{sg}(\bar x)$.

    $\hat x$ does not depend on $b$, which the mean takes out again, and so neither does the loss.
    Yet with the mean held fixed (sg: stop gradient)
    $\partial L / \partial b = \sum_i \partial L / \partial \hat x_i$, the same at every $b$: after
    $t$ steps of gradient descent $b_t = b_0 - t \eta\, \partial L / \partial b$ has grown without
    bound, and the loss has not moved. Through the mean,
    $\partial \hat x_i / \partial x_j = \delta_{ij} - 1/m$, whose rows sum to 0: the gradient of $b$
    is 0, and $b$ stays.

    Shapes: u and $\hat x$ `(N, features)`.
    Source: Ioffe and Szegedy 2015, Batch Normalization (arXiv:1502.03167), section 2.
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, u: Tensor) -> Tensor:
        """Add the bias, and take the mean of the batch out as if it were a constant."""
        x = u + self.bias
        return x - x.mean(0).detach()
