"""Rows of a large batch: each keeps its place, and each counts. For every normalizer by the batch,
by parts of it, or by averages.
"""

from __future__ import annotations

import numpy as np

from flowref.laws.batch_norm.arithmetic import per_channel
from flowref.laws.batch_norm.conditions import (
    has_axes,
    has_modes,
    is_per_channel,
    keeps_some_statistics,
)
from flowref.laws.batch_norm.declaration import batch_norm_law
from flowref.laws.batch_norm.normalizer import large_batch, normal_batch, output
from flowref.laws.common.outcomes import attempt, flags
from flowref.model import EXACT, GIVEN, SAMPLE, Array, Batch, Requirement, Residual, Unsupported
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Eval, Normalize, Train

# Rows of a large batch: a prime, or if that is rejected a number with many divisors; the least
# correlation of an output with its own input, and the shift of a row that must count.
ROWS, EXPLAINED, MOVED = (193, 192), 0.3, 30.0
# The least change of a shifted row, relative to the largest change of any row.
ITSELF = 0.5
# Relative change of an output that counts as none.
STAYS = 1e-9

of_batches = Requirement(
    lambda flow: flow.normalizer.statistics not in SAMPLE,
    "it normalizes each sample by itself, or does not move its averages",
)


def accepted_row_count(flow: BatchNormal) -> int:
    """The number of rows of a large batch that train mode accepts. Raises `Unsupported` if there
    is none.
    """
    refused = ""
    for rows in ROWS:
        x = large_batch(flow, np.random.default_rng(0), rows)
        _, refused = attempt(output, flow, x, Train())
        if not refused:
            return rows
    raise Unsupported(f"it refuses {ROWS[-1]} rows ({refused})", blocked=False)


@batch_norm_law(
    "batch-norm/train-map[row-places]",
    key="normalisation/rows-in-place",
    tolerance=EXACT,
    applies=of_batches & has_axes & is_per_channel,
    effort=1,
    scales=GIVEN,
    source="each row of the output is the row of the input, scaled and moved; parts of a batch are put together in its order",
)
def rows_in_place(flow: BatchNormal, batch: Batch) -> Residual:
    """In train mode the rows of a large batch keep their order: each entry of the output belongs
    to the input entry in its place, whatever parts of the batch are normalized together.
    """
    x = large_batch(flow, np.random.default_rng(batch.seed), accepted_row_count(flow))
    y = output(flow, x, Train())
    if np.shape(y) != np.shape(x):
        return flags(True, 1, f"{len(x)} rows come out in shape {np.shape(y)}")
    both = (per_channel(x), per_channel(np.asarray(y, dtype=np.float64)))
    rows, out = (one - one.mean(1, keepdims=True) for one in both)
    with np.errstate(all="ignore"):
        share = (rows * out).sum(1) / np.sqrt((rows**2).sum(1) * (out**2).sum(1))
    share = np.abs(share[np.isfinite(share)].astype(np.float64))
    if not share.size:
        raise Unsupported("in train mode it returns a constant", blocked=False)
    low = float(share.min())
    note = f"of {len(x)} rows in train mode, input and output correlate by {low:.2f} in a channel"
    if low >= EXPLAINED and (strays := _strays(flow, x, np.asarray(y, dtype=np.float64))):
        note = f"of {len(x)} rows in train mode, row {strays[0]} moves another row more than itself"
        return flags(True, 1, note)
    return flags(low < EXPLAINED, 1, note)


def _strays(flow: BatchNormal, x: Array, y: Array) -> list[int]:
    """The tested rows whose shift moves another row more than themselves."""
    found = []
    for row in (0, len(x) // 2, len(x) - 2, len(x) - 1):
        other = x.copy()
        other[row] += MOVED
        moved = np.abs(np.asarray(output(flow, other, Train()), np.float64) - y)
        most = moved.reshape(len(x), -1).max(1)
        if np.isfinite(most).all() and most[row] < ITSELF * most.max():
            found.append(row)
    return found


@batch_norm_law(
    "batch-norm/statistics[every-row]",
    key="normalisation/every-row-enters",
    tolerance=EXACT,
    applies=of_batches & has_axes & is_per_channel & has_modes & keeps_some_statistics,
    effort=1,
    scales=GIVEN,
    source="running statistics stand for those of the batches, of all their rows",
)
def every_row_enters(flow: BatchNormal, batch: Batch) -> Residual:
    """Every row of a large train-mode batch affects what eval mode normalizes by, if the row
    before it does. So do earlier rows, for batches that are not split into many parts, and all of
    several successive batches.
    """
    rng = np.random.default_rng(batch.seed)
    several = 2 * flow.normalizer.largest
    x, z = large_batch(flow, rng, several or accepted_row_count(flow)), normal_batch(flow, rng, 5)

    def after(*batches: Array) -> Array:
        trained = [Normalize(points) for points in batches]
        life = flow.play([Train(), *trained, Eval(), Normalize(z)])
        return np.asarray(life[-1], dtype=np.float64)

    def differ(one: Array, other: Array) -> bool:
        return bool(np.abs(other - one).max() > STAYS * np.abs(one).max())

    before = after(x)

    def moves(rows: int | slice) -> bool:
        other = x.copy()
        other[rows] += MOVED
        return differ(before, after(other))

    if not moves(slice(None)):
        raise Unsupported("a train-mode batch does not change eval mode", blocked=False)
    asked = (0, len(x) // 3, len(x) // 2, len(x) - 1)
    seen = [moves(row) for row in asked]
    # An average over many parts may have forgotten an earlier one.
    remembers = bool(several) and differ(after(x, x), after(x + MOVED, x))
    untouched = [
        row for at, row in enumerate(asked) if (remembers or any(seen[:at])) and not seen[at]
    ]
    note = f"of a batch of {len(x)} rows, row {[*untouched, 0][0]} does not change eval mode"
    return flags(bool(untouched), 1, note)
