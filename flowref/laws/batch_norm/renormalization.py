"""Batch renormalization: batch statistics corrected towards running ones within limits."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowref.laws.batch_norm.arithmetic import channel_gap
from flowref.laws.batch_norm.conditions import has_axes, has_modes
from flowref.laws.batch_norm.declaration import batch_norm_law
from flowref.laws.batch_norm.formula import Parameters, fit_channel_line
from flowref.laws.batch_norm.gradient import vjp
from flowref.laws.batch_norm.normalizer import input_gradient, large_batch, output, random_pullback
from flowref.model import BOUND, NEARBY, RENORM, Array, Batch, Requirement, Residual, Undecidable
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Eval, Normalize, Step, Train

# The spread of batches behind the running statistics, for which eps is negligible; their number;
# and the relative spreads of the measured batches.
WIDE, SEEN, ROWS, SPREADS = 1e10, 24, 16, np.geomspace(1e-6, 1e3, 37)
# Relative shifts of batches that measure d.
SHIFTS = 1e-3, 2e-3
# The ratio of corrections at limits that are reciprocal and larger than any usual ones.
SPAN = 1e4
# Relative error up to which numbers count as equal.
SAME = {"float64": 1e-6, "float32": 1e-3}


renormalizes = Requirement(
    lambda flow: flow.normalizer.statistics == RENORM, "it is no batch renormalization"
)


@batch_norm_law(
    "batch-norm/train-map[renormalization]",
    key="normalisation/renormalization",
    applies=renormalizes & has_modes & has_axes,
    tolerance=BOUND,
    effort=2,
    scales=NEARBY,
    source="Ioffe 2017, Batch Renormalization (arXiv:1702.03275), algorithm 1",
)
def renormalization(flow: BatchNormal, batch: Batch) -> Residual:
    r"""In train mode $y = w (r (x - \mu_B) / \sigma_B + d) + b$ with $r = \sigma_B / \sigma$
    clipped to $[1/r_{max}, r_{max}]$ and $d = (\mu_B - \mu) / \sigma$ of the running statistics
    before the batch: within the limits it is the map of eval mode. For gradients r and d are
    constants.
    """
    rng = np.random.default_rng(batch.seed)
    z = large_batch(flow, rng, ROWS)
    axes = tuple(axis for axis in range(z.ndim) if axis != 1)
    z = (z - z.mean(axes, keepdims=True)) / z.std(axes, keepdims=True)
    begin: list[Step[Any]] = [Train(), *(Normalize(WIDE * z) for _ in range(SEEN))]

    def slope(size: float, *more: Step[Any]) -> Array:
        return fit_channel_line(z, output(flow, size * z, *begin, *more)).slope

    usual, same = slope(WIDE, Eval()) / WIDE, SAME[flow.dtype]
    # w r of each channel, by spread of the batch.
    found = np.stack([slope(s * WIDE) for s in SPREADS])
    low, high = found[0], found[-1]
    if np.allclose(found, high, rtol=same):
        raise Undecidable("its limits are closed: it corrects nothing")
    floor, ceiling = (
        np.isclose(two, one, rtol=same).all() for two, one in ((found[1], low), (found[-2], high))
    )
    if floor != ceiling:
        if np.abs(high / low).min() < SPAN:
            raise Undecidable("its other limit is not reached")
        which = "lower" if ceiling else "upper"
        return _off(
            f"r has no {which} limit", np.abs(found[1] / low - 1) + np.abs(found[-2] / high - 1)
        )
    within = ~np.isclose(found, low, rtol=same) & ~np.isclose(found, high, rtol=same)
    expected = usual * WIDE * SPREADS[:, None]
    gap = np.where(within, np.abs(found / expected - 1), 0.0).max(0)
    if gap.max() > same:
        return _off(
            "within the limits of r train mode is not the map that eval mode is before the batch",
            gap,
            same,
        )
    weight = Parameters.of(flow).weight
    if weight is not None and floor:
        # With n - 1 in the deviation both are smaller.
        product = low * high / weight**2
        bessel = 1 - 1 / (z.size // z.shape[1])
        gap = np.minimum(np.abs(product - 1), np.abs(product / bessel - 1))
        if gap.max() > same:
            return _off("the limits of r are not reciprocal", gap, same)
    rows = np.flatnonzero(within.all(1))
    if not len(rows):
        raise Undecidable("no batch is within its limits")
    spread = max(SPREADS[rows] * WIDE, key=lambda one: abs(np.log(one / WIDE)))

    def moves(shift: float, *more: Step[Any]) -> Array:
        x, rest = spread * z + shift * WIDE, spread * z
        ends = (fit_channel_line(z, output(flow, one, *begin, *more)).level for one in (x, rest))
        return np.asarray(np.subtract(*ends))

    small, larger = (moves(shift) for shift in SHIFTS)
    if not np.allclose(
        small, larger, rtol=same
    ):  # otherwise its limit is zero, or below these shifts
        gap = np.abs(small / moves(SHIFTS[0], Eval()) - 1)
        if gap.max() > same:
            return _off(
                "d is not the difference of the means over the running deviation", gap, same
            )
    # For gradients r and d are constants.
    x = SPREADS[rows[len(rows) // 2]] * WIDE * z
    dy, pulled = random_pullback(flow, x, rng, *begin)
    _, expected, size = vjp(x, dy, fit_channel_line(x, np.asarray(pulled.value)).slope, 0.0, 0)
    note = "the gradient is not that of normalization by the batch with r and d held"
    return _off(note, channel_gap(input_gradient(pulled, x), expected, size), same)


def _off(note: str, gap: Array, same: float = 0.0) -> Residual:
    worst = float(np.max(gap))
    return Residual(np.array([worst]), allowed=same, note=note if worst > same else "")
