"""Densities on a surface, as on a sphere: with respect to its area, and not to volume."""

from __future__ import annotations

import numpy as np

from flowref.laws.common.outcomes import attempt
from flowref.model import Array, Undecidable
from flowref.model.abilities import Density

# Samples that are looked at, those around which the others are seen, and so many of them around each.
SAMPLES, ANCHORS, NEIGHBORS = 2_000, 32, 12
# More coordinates have no neighbors that are near; how flat these lie on a surface.
ENTRIES, FLAT = 6, 0.15
# How many spreads away a log-density has fallen by so much to one side at least, and at which share of
# samples it has not where it is of no volume.
AWAY, FALLEN, SHARE = 8.0, 5.0, 0.5
SAID = (
    "its samples lie on a surface, beside which its log-density does not fall: it is with respect to an area, of "
    "which laws of volumes say nothing"
)


def refuse_surfaces(flow: Density, flat: Array, context: Array | None) -> None:
    """Raise `Undecidable` where samples lie on a surface and the log-density tells nothing of it. One that
    falls beside them means volumes, and samples that do not fill these are wrong.
    """
    if not 2 <= flat.shape[1] <= ENTRIES or len(flat) < 10 * NEIGHBORS:
        return
    flat = flat[:SAMPLES]
    rows, normals, flatness = neighborhoods(flat)
    if not len(rows) or np.median(flatness) >= FLAT:
        return
    if stays_up(flow, flat[rows], normals, None if context is None else context[rows]):
        raise Undecidable(SAID)


def neighborhoods(flat: Array) -> tuple[Array, Array, Array]:
    """A few of the samples, by row; the way on which the fewest of their neighbors lie, over so many
    spreads; and how flat these lie across it. None where an entry is the same everywhere.
    """
    spread = flat.std(0)
    if not (spread > 0).all():
        return np.zeros(0, dtype=int), np.zeros((0, flat.shape[1])), np.zeros(0)
    scaled = flat / spread
    rows = np.arange(0, len(flat), max(1, len(flat) // ANCHORS))[:ANCHORS]
    normals, flatness = [], []
    for anchor in scaled[rows]:
        away = ((scaled - anchor) ** 2).sum(1)
        near = scaled[np.argpartition(away, NEIGHBORS)[:NEIGHBORS]]
        _, values, ways = np.linalg.svd(near - near.mean(0))
        normals.append(AWAY * spread * ways[-1])
        flatness.append(values[-1] / max(values[0], 1e-300))
    return rows, np.array(normals), np.array(flatness)


def stays_up(flow: Density, x: Array, ways: Array, context: Array | None) -> bool:
    """Whether on a way from many a point, to one side at least, the log-density is what it is there."""
    told = []
    for side in (0.0, 1.0, -1.0):
        points = (x + side * ways).reshape(-1, *flow.density_shape)
        log_p, _ = attempt(flow.log_prob, points, context)
        if log_p is None:
            return False
        told.append(np.nan_to_num(np.asarray(log_p, dtype=np.float64).reshape(len(x)), nan=-np.inf))
    here, *sides = told
    with np.errstate(invalid="ignore"):
        up = np.maximum(*sides) >= here - FALLEN
    return bool(up.mean() >= SHARE)
