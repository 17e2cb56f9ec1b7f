"""How heavy the tail of importance weights is: where their variance is infinite their mean is mostly too
small, and their standard error as well.
"""

from __future__ import annotations

import numpy as np

from flowref.model import Array

# The share of the weights, and how many times the root of their number, that are the tail (Vehtari et al.,
# arXiv:1507.02646).
SHARE, ROOTS = 0.2, 3.0
# The shape of a Pareto tail from which on the variance is infinite.
INFINITE = 0.5
# How many quarters of the tail's values scale what is tried (Zhang and Stephens 2009, section 4).
PRIOR, TRIED = 3, 30


def infinite_variance(weights: Array) -> bool:
    """Whether the largest weights lie as those do whose variance is infinite."""
    finite = weights[np.isfinite(weights)]
    count = int(min(SHARE * len(finite), ROOTS * np.sqrt(len(finite))))
    if count < TRIED:
        return False
    ordered = np.sort(finite)
    over = ordered[-count:] - ordered[-count - 1]
    over = over[over > 0]
    return len(over) >= TRIED and shape_of(over) > INFINITE


def shape_of(values: Array) -> float:
    """The shape k of a generalized Pareto distribution that positive values are drawn from: its variance is
    infinite for k above a half.

    Source: Zhang and Stephens 2009, A new and efficient estimation method for the generalized Pareto
    distribution, Technometrics 51.
    """
    x = np.sort(values)
    tries = TRIED + int(np.sqrt(len(x)))
    quarter = x[int(len(x) / 4 + 0.5) - 1]
    theta = 1 - np.sqrt(tries / (np.arange(1, tries + 1) - 0.5))
    theta = theta / (PRIOR * quarter) + 1 / x[-1]
    shapes = np.log1p(-theta[:, None] * x).mean(1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        fit = len(x) * (np.log(-theta / shapes) - shapes - 1)
        chances = 1 / np.exp(fit - fit[:, None]).sum(1)
    best = float((theta * chances).sum() / chances.sum())
    return float(np.log1p(-best * x).mean())
