"""Statistics that layers take from a batch in train mode."""

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

# Rows of a batch from which statistics are taken.
ROWS = 16
# The same for expensive calls on images, which have many numbers per channel.
FEW_ROWS = 2
# The share of a difference that may have another cause, and the smallest difference that counts.
SHARE, SMALL = 1e-3, 1e-6


class LivingBijection(Bijection, Living, Protocol):
    """A map that can be called repeatedly."""


class LivingInvertible(Invertible, Living, Protocol):
    """An invertible map that can be called repeatedly."""


def ordinary_rows(flow: Flow) -> int:
    """The number of rows of an ordinary train-mode batch."""
    return planned(flow, ROWS, FEW_ROWS) if flow.positioned else ROWS


def ordinary_probe(flow: Flow, seed: int, which: str, rows: int = 0) -> Probe:
    """A call at ordinary points, independent of the batch of the law."""
    rows = rows or ordinary_rows(flow)
    if flow.context_shape is not None:
        raise Unsupported("it takes contexts", blocked=False)
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
    source="the inverse of a batch normalization in train mode uses the statistics that the batch was divided by",
    pointwise=True,
)
def train_roundtrip(flow: LivingInvertible, batch: Batch) -> Residual:
    """In train mode, an inverse that restores the mean of the batch given to forward just before
    restores its spread.
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
        raise Unsupported("its inverse refuses what forward returns in train mode", blocked=False)
    lost = stretch(x, back - x) if np.abs(back - x).max() > size else 0.0
    if lost == 0.0 and np.abs(back - x).max() > size:
        raise Unsupported("in train mode its inverse returns another batch", blocked=False)
    if lost and np.abs(back - undone(Eval())).max() <= size:
        raise Unsupported("in train mode its inverse is that of eval mode", blocked=False)
    note = f"the batch comes back {lost:+.3g} of its spread too wide about its own mean"
    return flags(abs(lost) > SMALL, len(batch.x), note)


def played(flow: Living, steps: Sequence[Step[object]], fresh: bool = False) -> Life:
    """A history in train mode. Raises `Unsupported` if a call raises there."""
    life, error = attempt(flow.play, steps, fresh)
    if life is None:
        raise Unsupported(f"it is not called in train mode ({error})", blocked=False)
    return life


def stretch(x: Array, error: Array) -> float:
    """The relative excess of the spread of a batch about the mean of its channels, if that
    explains the error; else 0.
    """
    axes = (0, *range(2, x.ndim))
    centered = x - x.mean(axes, keepdims=True)
    spread = (centered**2).sum(axes, keepdims=True)
    share = (error * centered).sum(axes, keepdims=True) / np.where(spread > 0, spread, 1.0)
    rest = np.abs(error - share * centered).max()
    if not rest <= SHARE * np.abs(error).max():
        return 0.0
    return float(share.reshape(-1)[np.abs(share).argmax()])
