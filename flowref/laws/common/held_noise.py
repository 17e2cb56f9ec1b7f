"""Derivatives of random outputs with respect to parameters, with fixed noise: by autograd and by
differences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from flowref.laws.common.outcomes import attempt
from flowref.laws.common.statistics import Look, two_stage
from flowref.model import Array, Batch, Residual, Undecidable, Unsupported
from flowref.model.abilities import Parametric

# Number of ordinary points in a batch, of groups of rows per point, and of rows per group; each
# group has its own derivative.
POINTS, GROUPS, EACH = 4, 24, 4
# From this share of the allowed difference on, many times as many rows decide.
CONSPICUOUS, AGAIN = 0.3, 16
ORDINARY = 4.0
# The step of differences, the relative agreement that two of them need, and the allowed error of
# autograd.
STEP, AGREE, CLOSE = 1e-5, 1e-3, 1e-4
# Parameters are moved up to FAR to both sides in STEPS steps. A step is a jump if the output
# changes by JUMP times as much as in both neighbouring steps, and by at least CHANGE. The largest
# CANDIDATES are bisected HALVINGS times: a change that spreads out is no jump.
FAR, STEPS, JUMP, CHANGE, CANDIDATES, HALVINGS = 0.3, 24, 10.0, 1e-3, 3, 12
# Allowed mean difference: standard errors over groups, and share of the mean derivative. A score
# term that is left out on purpose has mean zero.
ERRORS, SHARE = 8.0, 0.02


class Slopes(NamedTuple):
    """Mean derivatives at a few points ``chosen`` of a batch, arrays ``(points,)``: ``recorded``
    by autograd, ``measured`` by differences, ``size`` of the latter, standard ``error`` and
    ``allowed`` value of the mean difference.
    """

    chosen: Array
    recorded: Array
    measured: Array
    size: Array
    error: Array
    allowed: Array

    @property
    def gaps(self) -> Array:
        r"""$|\text{recorded} - \text{measured}|$, ``(points,)``."""
        return np.asarray(np.abs(self.recorded - self.measured))

    @property
    def excess(self) -> Array:
        """``gaps`` in units of ``allowed``, ``(points,)``."""
        return np.asarray(self.gaps / self.allowed)

    def residual(self, usable: Array, note: str = "") -> Residual:
        """The residual of a law on the whole batch; rows that were not chosen, or are not
        ``usable``, ``(n,)``, are undecided.
        """

        def placed(values: Array | float) -> Array:
            out = np.zeros(len(usable))
            out[self.chosen] = values
            return out

        return Residual(
            placed(self.gaps),
            allowed=1 + placed(self.allowed - 1),
            decidable=usable & (placed(1.0) > 0),
            trivial=placed(self.size) == 0,
            observed={
                "autograd": placed(self.recorded),
                "differences": placed(self.measured),
                "standard error": placed(self.error),
            },
            note=note,
        )


def slopes_of(
    flow: Parametric, name: str, batch: Batch, read: Callable[[Any, int], Array]
) -> Slopes:
    """Slopes of the output that ``read`` takes from the named call; conspicuous ones are measured
    again on more rows, which decide. Raises `Undecidable` if the noise cannot be held.
    """
    chosen = ordinary_row_indices(batch.x)

    def compared(look: Look) -> Slopes:
        if look.index and jumps(flow, name, batch, chosen, read):
            raise Undecidable(
                "its random output jumps as parameters move, so that its noise is not held"
            )
        recorded, measured = grouped_derivatives(flow, name, batch, chosen, look.count, read)
        gaps, size = recorded - measured, np.abs(measured).mean(1)
        error = gaps.std(1, ddof=1) / np.sqrt(GROUPS)
        allowed = np.maximum(ERRORS * error, np.maximum(SHARE * size, CLOSE * (1 + size)))
        return Slopes(chosen, recorded.mean(1), measured.mean(1), size, error, allowed)

    return two_stage(compared, (EACH, AGAIN * EACH), batch.seed, CONSPICUOUS)


def jumps(
    flow: Parametric, name: str, batch: Batch, chosen: Array, read: Callable[[Any, int], Array]
) -> bool:
    """Whether the output of some row jumps as the parameters move. Rejection sampling does, as for
    gamma distributions: slopes between jumps are then not the derivative of the mean.
    """
    index = np.repeat(chosen, GROUPS * AGAIN * EACH)
    context = None if batch.context is None else batch.context[index]
    inputs, rows = (name, batch.x[index], context, batch.seed), len(index)

    def moved(t: float) -> Array:
        return read(flow.along(*inputs, t), rows)

    places = np.linspace(-FAR, FAR, 2 * STEPS)
    path = np.stack([moved(t) for t in places])
    with np.errstate(invalid="ignore"):
        change = np.abs(np.diff(path, axis=0))
        beside = np.maximum(change[:-2], change[2:])
        sudden = change[1:-1] > np.maximum(JUMP * beside, CHANGE * (1 + np.abs(path[1:-2])))
    size = np.where(sudden, change[1:-1], 0.0)
    for at in np.argsort(size, axis=None)[::-1][:CANDIDATES]:
        step, row = np.unravel_index(at, size.shape)
        if size[step, row] and _at_once(moved, places[step + 1], places[step + 2], int(row)):
            return True
    return False


def _at_once(moved: Callable[[float], Array], low: float, high: float, row: int) -> bool:
    """Whether a row still jumps between ``low`` and ``high`` after bisection to the smallest
    interval.
    """
    before, after = moved(low)[row], moved(high)[row]
    whole = abs(after - before)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        there = moved(middle)[row]
        if abs(there - before) > abs(after - there):
            high, after = middle, there
        else:
            low, before = middle, there
    return bool(abs(after - before) > whole / 2)


def grouped_derivatives(
    flow: Parametric,
    name: str,
    batch: Batch,
    chosen: Array,
    each: int,
    read: Callable[[Any, int], Array],
) -> tuple[Array, Array]:
    """Derivatives at the chosen points, ``(points, groups)``, by autograd and by differences.
    Raises `Undecidable` if differences do not converge, `Unsupported` if autograd raises.
    """
    index = np.repeat(chosen, GROUPS * each)
    context = None if batch.context is None else batch.context[index]
    inputs, rows = (name, batch.x[index], context, batch.seed), len(index)

    def moved(t: float) -> Array:
        return read(flow.along(*inputs, t), rows)

    slopes, again = ((moved(h) - moved(-h)) / (2 * h) for h in (STEP, 2 * STEP))
    with np.errstate(invalid="ignore"):
        # Rows at which noise decides a branch jump and have no slope.
        usable = np.isfinite(slopes) & (np.abs(slopes - again) <= AGREE * (1 + np.abs(slopes)))
    measured, recorded = np.zeros((2, len(chosen), GROUPS))
    for point, group in np.ndindex(len(chosen), GROUPS):
        start = (point * GROUPS + group) * each
        members = start + np.flatnonzero(usable[start : start + each])
        if not len(members):
            raise Undecidable("differences of its random output do not converge")
        weights = np.zeros(rows)
        weights[members] = 1 / len(members)
        slope, refused = attempt(flow.slope, *inputs, weights)
        if refused or not np.isfinite(slope):
            raise Unsupported(f"it cannot be differentiated here ({refused or slope})")
        measured[point, group], recorded[point, group] = slopes[members].mean(), slope
    return recorded, measured


def ordinary_row_indices(x: Array) -> Array:
    """Row indices of a few points that are not far out, so that derivatives are of similar size.
    Raises `Undecidable` if there is none.
    """
    size = np.abs(x.reshape(len(x), -1)).max(1)
    good = np.flatnonzero(np.isfinite(size) & (size <= max(ORDINARY, float(np.median(size)))))
    if not len(good):
        raise Undecidable("no point is of ordinary size")
    return good[:POINTS]
