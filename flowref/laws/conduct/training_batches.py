"""What layers do with the numbers that they take from a batch in train mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from flowref.laws.common.amounts import planned
from flowref.laws.common.outcomes import attempt, flags
from flowref.laws.common.probes import Probe, probe_of
from flowref.laws.common.requirements import in_double, repeatable
from flowref.laws.conduct.train_mode import has_modes
from flowref.model import (
    EXACT,
    NEARBY,
    VALUES,
    Array,
    Batch,
    Life,
    Residual,
    Unsupported,
    draw_points,
    law,
)
from flowref.model.abilities import Bijection, Flow, Invertible, Living
from flowref.model.steps import Eval, Run, Step, Train

# Rows of a batch that statistics are taken of.
ROWS = 16
# The same of images whose calls are heavy: there are many numbers of a channel in each.
FEW_ROWS = 2
# A share of a difference that may be something else, and the smallest difference that counts.
SHARE, SMALL = 1e-3, 1e-6


class LivingBijection(Bijection, Living, Protocol):
    """A map that can be played."""


class LivingInvertible(Invertible, Living, Protocol):
    """A map with its inverse that can be played."""


def ordinary_rows(flow: Flow) -> int:
    """How many rows an ordinary batch in train mode has."""
    return planned(flow, ROWS, FEW_ROWS) if flow.positioned else ROWS


def ordinary_probe(flow: Flow, seed: int, which: str, rows: int = 0) -> Probe:
    """A call at ordinary points, whatever the batch of the law holds."""
    rows = rows or ordinary_rows(flow)
    if flow.context_shape is not None:
        raise Unsupported("it takes contexts", waits=False)
    x = draw_points(flow.domain, (rows, *flow.event_shape), np.random.default_rng(seed))
    return probe_of(flow, which, x, None)


@law(
    "map/inverse[batch-spread]",
    key="mode/train-roundtrip",
    about=VALUES,
    applies=has_modes & repeatable & in_double,
    tolerance=EXACT,
    effort=1,
    size=3,
    scales=NEARBY,
    source="the inverse of a batch normalization in train mode: what it keeps of the batch is what the batch was divided by",
    pointwise=True,
)
def train_roundtrip(flow: LivingInvertible, batch: Batch) -> Residual:
    """In train mode, an inverse that gives back the mean of the batch that forward has just been
    given gives back its spread.
    """
    before, asked = (ordinary_probe(flow, batch.seed + at, "forward") for at in (1, 0))
    warm: list[Step[object]] = [Train(), before.step(), asked.step()]
    x, y = asked.points, np.asarray(played(flow, warm)[2].value)
    undo = Run("inverse", y, None, draws=0)

    def undone(*mode: Step[object]) -> Array:
        return np.asarray(played(flow, [*warm, *mode, undo])[-1].value, dtype=np.float64)

    back = undone()
    size = SMALL * np.abs(x).max()
    if back.shape != x.shape or not np.isfinite(back).all():
        raise Unsupported("its inverse refuses what forward returns in train mode", waits=False)
    lost = stretch(x, back - x) if np.abs(back - x).max() > size else 0.0
    if lost == 0.0 and np.abs(back - x).max() > size:
        raise Unsupported("in train mode its inverse gives back another batch", waits=False)
    if lost and np.abs(back - undone(Eval())).max() <= size:
        raise Unsupported("in train mode its inverse is that of eval mode", waits=False)
    note = f"the batch comes back {lost:+.3g} of its spread too wide about its own mean"
    return flags(abs(lost) > SMALL, len(batch.x), note)


def played(flow: Living, steps: Sequence[Step[object]], fresh: bool = False) -> Life:
    """A life in train mode; that it is refused there is no wrong result."""
    life, error = attempt(flow.play, steps, fresh)
    if life is None:
        raise Unsupported(f"it is not called in train mode ({error})", waits=False)
    return life


def stretch(x: Array, error: Array) -> float:
    """The share of its spread by which a batch is too wide about the mean of its channels, where
    that is all that is wrong with it; 0 otherwise.
    """
    axes = (0, *range(2, x.ndim))
    centered = x - x.mean(axes, keepdims=True)
    spread = (centered**2).sum(axes, keepdims=True)
    share = (error * centered).sum(axes, keepdims=True) / np.where(spread > 0, spread, 1.0)
    rest = np.abs(error - share * centered).max()
    if not rest <= SHARE * np.abs(error).max():
        return 0.0
    return float(share.reshape(-1)[np.abs(share).argmax()])
