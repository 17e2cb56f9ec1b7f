r"""Rounding inside normalizations with one-pass moments.

PyTorch's group normalization of a channels-last input computes the variance as $E[x^2] - E[x]^2$,
that of a contiguous one by Welford's recurrence. Both are correct; they differ by $\eta E[x]^2$ in
the variance, which is relatively large if a group hardly varies. Rounding of the inputs does not
show it, since it changes the variance by $\eta E[x]\,\sigma$ only.

Source: aten/src/ATen/native/cpu/group_norm_kernel.cpp; Chan, Golub and LeVeque, Algorithms for
Computing the Sample Variance (1983).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

ONE_PASS = frozenset({"native_group_norm"})


def one_pass(
    args: tuple[Any, ...],
    arrays: tuple[Any, Any, Any],
    magnitude: float,
    uniform: Callable[..., Any],
) -> None:
    """Adds to a group normalization's result, in place, the error of one-pass moments.

    ``args``: of ``native_group_norm``, with its weight and bias as arrays or None; ``arrays``: the
    result `(N, C, ...)`, the means and the reciprocal deviations `(N, groups)`; ``magnitude``: the
    half-width of a relative error; ``uniform``: returns numbers in [-1, 1] in the shape of an
    array.
    """
    result, mean, deviation = arrays
    weight, bias = args[1], args[2]
    rows, groups = mean.shape
    channels = result.shape[1]
    per_channel = (rows, channels) + (1,) * (result.ndim - 2)

    def spread(values: Any) -> Any:
        return np.repeat(values, channels // groups, axis=1).reshape(per_channel)

    along = (1, channels) + (1,) * (result.ndim - 2)
    scale = 1.0 if weight is None else weight.reshape(along)
    center = 0.0 if bias is None else bias.reshape(along)
    # Half of the variance's error: one unit in the mean of squares, another in the squared mean.
    relative = magnitude * (mean * deviation) ** 2 * uniform(mean)
    shift = magnitude * mean * deviation * uniform(mean)
    result += (result - center) * spread(relative) - scale * spread(shift)
    deviation *= 1 + relative
