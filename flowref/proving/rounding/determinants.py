"""Logarithms of determinants of interval matrices: (..., n, n) to ends of log |det|."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowref.proving.rounding import enclosures as of
from flowref.proving.rounding.enclosures import INCREASING, Ends


def log_det_bounds(matrix: Ends) -> Ends:
    """Bounds of log |det M| over all matrices M in an interval, (..., n, n): by elimination, and
    by the distance of the product with the midpoint's inverse from one (Ostrowski, Sur la
    détermination des bornes inférieures pour une classe des déterminants, 1937).
    """
    low, high = _eliminated(matrix)
    middle = matrix[0] / 2 + matrix[1] / 2
    try:
        by = np.linalg.inv(middle)
    except np.linalg.LinAlgError:
        return low, high
    near = of.product((by, by), matrix)
    size = near[0].shape[-1]
    sides = ~np.eye(size, dtype=bool)
    off = of.magnitude((near[0] * sides, near[1] * sides)).sum(-1) * (1 + 1e-12)
    diagonal = np.diagonal(near[0], axis1=-2, axis2=-1), np.diagonal(near[1], axis1=-2, axis2=-1)
    rows = of.down(of.smallest(diagonal) - off), of.up(of.magnitude(diagonal) + off)
    sums = of.sum_of_ends(INCREASING["log"].ends(rows))
    preconditioned = of.plus(sums, of.negative(_eliminated((by, by))))
    return np.fmax(low, preconditioned[0]), np.fmin(high, preconditioned[1])


def _eliminated(matrix: Ends) -> Ends:
    """Gaussian elimination, with the pivot farthest from zero."""
    low, high = (np.array(one, float) for one in matrix)
    found: Ends = (np.zeros(low.shape[:-2]), np.zeros(low.shape[:-2]))
    for step in range(low.shape[-1]):
        column = low[..., step:, step], high[..., step:, step]
        best = step + of.smallest(column).argmax(-1)
        for part in (low, high):
            at = np.broadcast_to(best[..., None, None], (*best.shape, 1, part.shape[-1]))
            row, other = part[..., step, :].copy(), np.take_along_axis(part, at, -2)[..., 0, :]
            np.put_along_axis(part, at, row[..., None, :], -2)
            part[..., step, :] = other
        pivot = low[..., step, step], high[..., step, step]
        sizes = of.smallest(pivot), of.magnitude(pivot)
        found = of.plus(found, INCREASING["log"].ends(sizes))
        rest = (Ellipsis, slice(step + 1, None), slice(step + 1, None))
        below = low[..., step + 1 :, step, None], high[..., step + 1 :, step, None]
        across = low[..., step, None, step + 1 :], high[..., step, None, step + 1 :]
        by = of.reciprocal((pivot[0][..., None, None], pivot[1][..., None, None]))
        less = of.times(of.times(below, across), by)
        low[rest], high[rest] = of.plus((low[rest], high[rest]), of.negative(less))
    return found


def blocks(d: Ends, rows: int) -> Any:
    """The Jacobians of points, (boxes, rows, outputs, inputs), from derivatives by each entry of
    all points, and by the entries of the first point; None if a point depends on another.
    """
    entries = d[0].shape[1] - 1
    flat = [one.reshape(len(one), entries + 1, rows, -1) for one in d]
    if not of.zero((flat[0][:, -1, 1:], flat[1][:, -1, 1:])).all():
        return None
    return tuple(np.moveaxis(one[:, :-1], 1, 3) for one in flat)
