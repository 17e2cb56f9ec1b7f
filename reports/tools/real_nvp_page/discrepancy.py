r"""Maximum mean discrepancy: how far two sets of points are from being drawn alike.

Source: Gretton et al. 2012, A Kernel Two-Sample Test (JMLR 13), lemma 6.
"""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

Values = NDArray[Any]


def width(points: Values) -> float:
    """The median distance of two points."""
    return float(torch.pdist(torch.as_tensor(points[:1000])).median())


def kernels(x: Tensor, y: Tensor, scale: float) -> Tensor:
    """The mean of normal kernels of widths scale, scale / 2, scale / 4 and scale / 8."""
    widest = torch.exp(-torch.cdist(x, y).square() / (2 * scale**2))
    total = widest.clone()
    for _ in range(3):
        widest = widest.square().square()  # half the width is the fourth power
        total += widest
    return total / 4


def squared(x: Values, y: Values, scale: float) -> float:
    r"""The unbiased estimate of $\mathrm{MMD}^2 = E k(x, x') + E k(y, y') - 2 E k(x, y)$; its mean
    is 0 if both are alike.
    """
    a, b = (torch.as_tensor(values, dtype=torch.float32) for values in (x, y))

    def within(points: Tensor) -> float:
        n = len(points)
        found = kernels(points, points, scale)
        return (float(found.sum(dtype=torch.float64)) - float(found.diagonal().sum())) / (
            n * (n - 1)
        )

    return within(a) + within(b) - 2 * float(kernels(a, b, scale).mean(dtype=torch.float64))
