"""Log-dets and log-densities far from the origin, where a naive formula overflows."""

from __future__ import annotations

import numpy as np

from flowref.laws.common.amounts import sparing
from flowref.laws.common.outcomes import attempt, row_log_dets
from flowref.laws.common.requirements import exact_density, exact_log_det, in_space
from flowref.model import (
    ADVICE,
    EXACT,
    GIVEN,
    VOLUME,
    Array,
    Batch,
    Residual,
    Unsupported,
    draw_points,
    law,
    requires,
)
from flowref.model.abilities import Bijection, Density, Flow
from flowref.model.support import Support

# The range of |x|, the number of points on each ray, and of coordinates.
NEAREST, FARTHEST, STEPS, ENTRIES = 4.0, 1e4, 48, 4
# The same for heavy calls.
FEW_STEPS, FEW_ENTRIES = 8, 1
# A log-density this low has not reached the end of its support; below the second it may have
# reached the end of the numbers. A log-det this low belongs to a slope that underflows.
LOW, LOWEST = -300.0, -1e8


@requires("its domain ends in every direction")
def goes_on(flow: Flow) -> bool:
    """The domain is unbounded in some direction."""
    return endless(flow.domain)


@requires("its support ends in every direction")
def density_goes_on(flow: Flow) -> bool:
    """The support is unbounded in some direction."""
    return endless(flow.density_support)


def endless(support: Support) -> bool:
    """Whether an interval has an infinite end."""
    return not support.joint and not np.isfinite(support.ends).all()


def rays(
    support: Support, shape: tuple[int, ...], batch: Batch, few: bool
) -> list[tuple[Array, Array | None]]:
    """Points ``(steps, *event)`` from an ordinary one outward, with one coordinate large or all,
    each with its context.
    """
    count, entries = (FEW_STEPS, FEW_ENTRIES) if few else (STEPS, ENTRIES)
    rng = np.random.default_rng(batch.seed)
    start = draw_points(support, (1, *shape), rng).reshape(-1)
    steps = np.geomspace(NEAREST, FARTHEST, count)
    lows, highs = (np.broadcast_to(end, start.shape) for end in support.ends)
    found = []
    chosen = [np.arange(len(start)) == entry for entry in range(min(entries, len(start)))]
    for moved in [*chosen, np.ones(len(start), dtype=bool)][: len(chosen) + (len(start) > 1)]:
        for sign, ends in ((1.0, highs), (-1.0, lows)):
            if np.isfinite(ends[moved]).any():
                continue
            x = np.where(moved, start + sign * steps[:, None], start).reshape(count, *shape)
            context = None if batch.context is None else batch.context[:1].repeat(count, 0)
            found.append((x, context))
    return found


# Advice: few data lie so far out, and the formula is mathematically right.
@law(
    "map/finite-far-out[log-det]",
    key="bijection/far-log-det",
    about=VOLUME,
    force=ADVICE,
    tolerance=EXACT,
    local=False,
    effort=1,
    size=1,
    scales=GIVEN,
    applies=goes_on & in_space & exact_log_det,
    source="log s(x) + log(1 - s(x)) is -inf from 37 on, where s(x) rounds to one; -softplus(x) - softplus(-x) is not",
    pointwise=True,
)
def far_log_det(flow: Bijection, batch: Batch) -> Residual:
    """The log-det is finite at points of the domain up to $|x| = 10^4$ wherever the value is, if
    it is near the origin, unless it has fallen to -300, where slopes underflow.
    """
    lost: list[tuple[float, float, float]] = []
    seen = False
    for x, context in rays(flow.domain, flow.event_shape, batch, sparing(flow)):
        out, error = attempt(flow.forward, x, context)
        if error or out.ladj is None:
            continue
        value = np.asarray(out.value, dtype=np.float64).reshape(len(x), -1)
        ladj = row_log_dets(out, len(x))
        good = np.isfinite(value).all(1)
        seen |= bool(good.any())
        lost += [one for one in first_lost(x, np.where(good, ladj, 0.0)) if one[2] > LOW]
    if not seen:
        raise Unsupported("it raises, or is not finite, far out", blocked=False)
    return _nearest_loss_residual(lost, len(batch.x), "the log-det")


@law(
    "map/finite-far-out[log-prob]",
    key="density/far-log-prob",
    about=VOLUME,
    points="data",
    force=ADVICE,
    tolerance=EXACT,
    local=False,
    effort=1,
    size=1,
    scales=GIVEN,
    applies=density_goes_on & in_space & exact_density,
    source="log(exp(a) + exp(b)) is -inf where both underflow; logaddexp is not",
)
def far_log_prob(flow: Density, batch: Batch) -> Residual:
    r"""A log-density that has fallen to -300 stays finite up to $|x| = 10^4$: it does not drop to
    $-\infty$, as at the end of a support.
    """
    lost: list[tuple[float, float, float]] = []
    for x, context in rays(flow.density_support, flow.density_shape, batch, sparing(flow)):
        out, error = attempt(flow.log_prob, x, context)
        if error or np.size(out) != len(x):
            continue
        density = np.asarray(out, dtype=np.float64).reshape(len(x))
        lost += [one for one in first_lost(x, density) if LOWEST < one[2] < LOW]
    return _nearest_loss_residual(lost, len(batch.x), "the log-density")


def first_lost(x: Array, values: Array) -> list[tuple[float, float, float]]:
    """For each entry, where values on a ray cease to be finite: |x|, the value there and the one
    before; none if the first is not finite.
    """
    bad = np.flatnonzero(~np.isfinite(values))
    if not len(bad) or bad[0] == 0:
        return []
    at = int(bad[0])
    return [(float(np.abs(x[at]).max()), float(values[at]), float(values[at - 1]))]


def _nearest_loss_residual(
    lost: list[tuple[float, float, float]], rows: int, what: str
) -> Residual:
    note = ""
    if lost:
        far, value, before = min(lost)
        note = f"{what} is {value:g} at |x| = {far:.3g}, and {before:.4g} just before"
    return Residual(np.full(rows, float(bool(lost))), note=note)
