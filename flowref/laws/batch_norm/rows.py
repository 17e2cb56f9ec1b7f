"""Laws of the rows of a large batch: each stays in its place, and each counts. They hold of whatever
normalizes, by the batch, by parts of it, or by averages.
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

# Rows of a large batch, a prime, or where that is refused what has many divisors; how much of an output
# its own input explains at least, and how much a row that counts is moved.
ROWS, EXPLAINED, MOVED = (193, 192), 0.3, 30.0
# A row that is moved changes by at least this share of the largest change of any row.
ITSELF = 0.5
# Share of an output below which it stays.
STAYS = 1e-9

of_batches = Requirement(
    lambda flow: flow.normalizer.statistics not in SAMPLE,
    "it normalizes each sample by itself, or does not move its averages",
)


def accepted_row_count(flow: BatchNormal) -> int:
    """How many rows a large batch has that train mode takes."""
    refused = ""
    for rows in ROWS:
        x = large_batch(flow, np.random.default_rng(0), rows)
        _, refused = attempt(output, flow, x, Train())
        if not refused:
            return rows
    raise Unsupported(f"it refuses {ROWS[-1]} rows ({refused})", waits=False)


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
    """In train mode the rows of a large batch come out in their order: each entry of the output goes with
    the entry of the input at its place, whatever parts of the batch are normalized together.
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
        raise Unsupported("in train mode it returns a constant", waits=False)
    low = float(share.min())
    note = f"of {len(x)} rows in train mode, input and output correlate by {low:.2f} in a channel"
    if low >= EXPLAINED and (strays := _strays(flow, x, np.asarray(y, dtype=np.float64))):
        note = f"of {len(x)} rows in train mode, row {strays[0]} moves another row more than itself"
        return flags(True, 1, note)
    return flags(low < EXPLAINED, 1, note)


def _strays(flow: BatchNormal, x: Array, y: Array) -> list[int]:
    """The rows, of some at the ends and within, of which another one moves more than they do where they are moved."""
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
    """Every row of a large train-mode batch that comes after one which enters what eval mode normalizes by
    enters it too: where it is another, eval mode is another. So do rows before it, where a batch is none of
    many parts, and batches that come one after the other are all remembered.
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
        raise Unsupported("a batch in train mode moves nothing of eval mode", waits=False)
    asked = (0, len(x) // 3, len(x) // 2, len(x) - 1)
    seen = [moves(row) for row in asked]
    # What an earlier part brought, an average of many parts may have forgotten since.
    remembers = bool(several) and differ(after(x, x), after(x + MOVED, x))
    untouched = [
        row for at, row in enumerate(asked) if (remembers or any(seen[:at])) and not seen[at]
    ]
    note = f"of a batch of {len(x)} rows, row {[*untouched, 0][0]} leaves eval mode as it is"
    return flags(bool(untouched), 1, note)
