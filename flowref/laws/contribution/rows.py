"""Rows of a batch do not depend on each other, and no draw makes them no numbers."""

from __future__ import annotations

import numpy as np

from flowref.laws.common.arithmetic import rows_max
from flowref.laws.common.probes import accepted
from flowref.laws.contribution.calls import contribution
from flowref.laws.contribution.draws import contributed
from flowref.model import EXACT, Array, Batch, Residual, Undecidable, law
from flowref.model.abilities import Pushing

# Random seeds that are tried at each batch.
SEEDS = 6


@law(
    "contribution/rows-independent",
    local=False,
    effort=4,
    size=16,
    source="Nielsen et al., SurVAE Flows (arXiv:2007.02731): x and z are one event; a chain accepts each "
    "of its walkers by itself (Wu et al., arXiv:2002.06707)",
)
def rows_independent(flow: Pushing, batch: Batch) -> Residual:
    """With the same random seed, a row comes out the same whatever the other rows of its batch hold.

    The batch keeps its size, since random numbers are drawn for all rows together.
    """
    rows = len(batch.x)
    if rows < 2:
        raise Undecidable("the batch has one row")
    points, refused = accepted(flow.push, batch.x, batch.seed, batch.context)
    if points is None:
        raise Undecidable(f"forward refuses its points ({refused})")
    kept = np.arange(rows) < (rows + 1) // 2
    shape = (-1, *[1] * (points.ndim - 1))
    # Points of the same batch in the places of others lie in the domain, too.
    other = np.where(kept.reshape(shape), points, points[::-1])
    value, size = np.zeros((rows, 2)), np.ones(rows)
    for seed in range(batch.seed, batch.seed + SEEDS):
        (z, v), (w, u) = (contributed(flow, x, seed, batch.context) for x in (points, other))
        with np.errstate(invalid="ignore"):
            gaps = np.stack([rows_max(z - w), np.abs(v - u)], 1)
        value = np.maximum(value, np.where(kept[:, None], np.nan_to_num(gaps, nan=0.0), 0.0))
        size = np.maximum(size, np.nan_to_num(1 + rows_max(z) + np.abs(v), posinf=1.0, nan=1.0))
    return Residual(value, size, trivial=~kept)


@law(
    "contribution/finite-for-every-draw",
    tolerance=EXACT,
    effort=6,
    size=32,
    source="a proposal that is refused leaves nothing behind: 0 times infinity is NaN",
)
def finite_for_every_draw(flow: Pushing, batch: Batch) -> Residual:
    """At a point where one draw gives numbers, no draw gives NaN, neither as a value nor as a
    contribution.
    """
    rows = len(batch.x)
    points, refused = accepted(flow.push, batch.x, batch.seed, batch.context)
    if points is None:
        raise Undecidable(f"forward refuses its points ({refused})")
    good, bad = np.zeros(rows, dtype=bool), np.zeros(rows, dtype=bool)
    for seed in range(batch.seed, batch.seed + SEEDS):
        out = flow.push(points, seed, batch.context)
        z, v = np.asarray(out.value, dtype=np.float64), contribution(out, rows)
        missing: Array = np.isnan(z.reshape(rows, -1)).any(1) | np.isnan(v)
        bad |= missing
        good |= ~missing & np.isfinite(z.reshape(rows, -1)).all(1) & np.isfinite(v)
    return Residual((bad & good).astype(np.float64), decidable=good)
