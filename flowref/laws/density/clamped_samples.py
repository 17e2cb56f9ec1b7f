"""Samples that accumulate at an end, from clamped noise that the density does not account for."""

from __future__ import annotations

import math

import numpy as np

from flowref.laws.common.amounts import stepwise
from flowref.laws.common.outcomes import attempt
from flowref.laws.density.balance import comparable
from flowref.laws.density.base import normalizing_calls
from flowref.laws.density.consistency import unconditional
from flowref.laws.density.draws import REPEATED, first_sample_count
from flowref.laws.density.independence import MappedSamples
from flowref.laws.density.normal import takes_to_normal
from flowref.model import BOUND, GIVEN, Array, Batch, Residual, Undecidable, Unsupported, law

# The largest number of rows, the number of rows that may coincide at an end, and the relative
# distance up to which they do.
ROWS, FEW, SAME = 8000, 4, 1e-9
# For step-by-step samplers: number of rows, the least number of entries, whose latents are pooled
# as one coordinate, and the number that may coincide at an end.
DEAR_ROWS, LARGE, MET = 4, 256, 2
# Samples that decide which call gives latents.
DECIDING = 16
# A number with few binary digits after its point may be an intended bound of the data, at which
# samples are clamped on purpose.
SHORT = 256.0


@law(
    "sampling/follows-density[clamping]",
    key="sampling/no-piling-up",
    points="data",
    tolerance=BOUND,
    local=False,
    scales=GIVEN,
    size=1,
    effort=2,
    applies=comparable & unconditional,
    version=2,
    source="a density gives no point a mass: noise that is clamped has atoms, and no tails",
)
def no_piling_up(flow: MappedSamples, batch: Batch) -> Residual:
    """The latents of samples do not accumulate at their largest or smallest value, as clamped
    noise does.

    Samples clamped at an end of the data, such as 0 or 1, are left out. For large events with an
    expensive sampler a few samples are drawn, and the latents of all entries are pooled.
    """
    large = math.prod(flow.density_shape) >= LARGE
    pooled = stepwise(flow, "sample") and large
    count = DEAR_ROWS if pooled else min(ROWS, first_sample_count(flow))
    x = np.asarray(flow.sample(count, batch.seed, None), dtype=np.float64)
    if x.shape != (count, *flow.density_shape):
        raise Unsupported("another law checks the shape of its samples", blocked=False)
    flat = x.reshape(count, -1)
    cut = clamped_entries(flat) & (np.trunc(flat * SHORT) == flat * SHORT)
    kept = np.isfinite(flat).all(1) & ~cut.any(1)
    if kept.sum() < count // 2:
        raise Undecidable("most of its samples lie at an end of the data")
    ways = ways_of(flow, x[kept][:DECIDING])
    most = looked_at = count * (math.prod(flow.density_shape) if pooled else 1)
    allowed = MET if pooled else FEW
    for which in ways:
        out, error = attempt(flow.calls[which], x[kept], None)
        if error:
            raise Undecidable(f"{which} refuses samples ({error})")
        latents = np.asarray(out.value, dtype=np.float64).reshape(int(kept.sum()), -1)
        latents = latents.reshape(-1, 1) if pooled else latents
        if any(map(repeats, latents.T)):
            raise Undecidable("its latents repeat values, as in discrete distributions")
        looked_at = len(latents)
        most = min(most, int(clamped_entries(latents).sum(0).max(initial=0)))
    where = "all of them" if pooled else "their coordinate"
    note = f"{most} of {looked_at} latents lie at one of the two ends of {where}"
    return Residual(
        np.array([float(most)]),
        allowed=float(allowed),
        observed={"latents at an end": np.array([float(most)])},
        note=note if most > allowed else "",
    )


def ways_of(flow: MappedSamples, x: Array) -> list[str]:
    """The calls that may map data to latents: both if user code does not declare it; forward for
    maps without an inverse, if the log-density confirms it.
    """
    alone = "inverse" not in flow.calls and flow.normalizing == "forward"
    return ["forward"] if alone and takes_to_normal(flow, x) else normalizing_calls(flow)


def repeats(column: Array) -> bool:
    """Whether values strictly between the two ends repeat."""
    near = SAME * (1 + np.abs(column).max())
    inner = column[(column > column.min() + near) & (column < column.max() - near)]
    return len(np.unique(inner)) < REPEATED * len(inner)


def clamped_entries(values: Array) -> Array:
    """The entries at the largest or smallest value of their column that share it with others,
    ``(n, entries)``; none in columns with few distinct values.
    """
    low, high = values.min(0), values.max(0)
    near = SAME * (1 + np.maximum(np.abs(low), np.abs(high)))
    at = np.zeros(values.shape, dtype=bool)
    for end in (low, high):
        there = np.abs(values - end) <= near
        at |= there & (there.sum(0) > 1)
    return np.asarray(at & (at.mean(0) < 0.5))
