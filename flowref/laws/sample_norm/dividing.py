"""What samples are divided by beside their spread: the constant eps, as the narrowest samples show it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from flowref.laws.batch_norm.measuring import constant
from flowref.laws.batch_norm.normalizer import output
from flowref.laws.sample_norm.groups import (
    at_no_threshold,
    lines,
    spread_over,
    values_together,
)
from flowref.model import Array, Undecidable
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Train

Divisor = Callable[[Array], Array]
# The least share of the narrowest variance that counts for an eps, and how often that is measured.
LEAST, TIMES = 1e-9, 4


def divisors(
    flow: BatchNormal, wide: Array, wide_y: Array, tiny: Array
) -> list[tuple[float, Divisor]]:
    """The eps, and what is divided by as a function of a variance, with eps in the root and beside it."""
    mean, var = spread_over(flow, tiny)
    y = output(flow, tiny, Train())
    free = at_no_threshold(flow, y)
    weight, _ = lines(flow, wide, wide_y, np.sqrt)
    entry = int(np.where(free.any(0) & np.isfinite(weight), np.abs(weight), -1.0).argmax())
    row = int(free.reshape(len(free), -1)[:, entry].argmax())
    moved, own, first = (float(each[row].flat[entry]) for each in (tiny - mean, var, y))

    def divided_by(divisor: Divisor) -> float:
        """What the narrowest sample was divided by."""
        weight, bias = lines(flow, wide, wide_y, divisor)
        with np.errstate(all="ignore"):
            found = float(np.abs(moved * weight.flat[entry] / (first - bias.flat[entry])))
        if not np.isfinite(found):
            raise Undecidable("its weight is zero")
        return found

    within = beside = 0.0
    for _ in range(TIMES):  # eps is of weight among wide samples, too
        within = divided_by(partial(_in_the_root, within)) ** 2 - own
        within = constant(within, LEAST * own)
        beside = divided_by(partial(_beside_the_root, beside)) - float(np.sqrt(own))
    beside = written(beside, values_together(flow))
    return [
        (within, partial(_in_the_root, within)),
        (beside, partial(_beside_the_root, beside)),
    ]


def written(measured: float, values: int) -> float:
    """An eps beside the root as it was written, where it has few digits, or would have with a deviation by
    n - 1.
    """
    for factor in (1.0, np.sqrt(values / max(values - 1, 1))):
        whole = float(f"{measured * factor:.3g}")
        if abs(whole - measured * factor) <= 1e-5 * abs(whole):
            return float(whole / factor)
    return measured


def _in_the_root(eps: float, var: Array) -> Array:
    return np.asarray(np.sqrt(var + eps))


def _beside_the_root(eps: float, var: Array) -> Array:
    return np.asarray(np.sqrt(var) + eps)
