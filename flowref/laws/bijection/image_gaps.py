"""Small gaps in the image of a map, at points where its formula changes."""

from __future__ import annotations

import numpy as np

from flowref.laws.common.arithmetic import finite_rows, rows_max
from flowref.laws.common.outcomes import attempt
from flowref.laws.common.requirements import in_double, repeatable
from flowref.model import (
    EXACT,
    NEARBY,
    Array,
    Batch,
    Residual,
    Unsupported,
    draw_points,
    law,
    requires,
)
from flowref.model.abilities import Flow, Invertible

# The relative distance of two neighbouring points, and the ratio of the changes on both sides that
# counts as a jump.
BESIDE, JUMPS = 1e-8, 1000.0
# Jumps that are judged, relative to 1 + |f(x)|: more than rounding, and at most this share of the
# range of images, since a wide gap may be intended.
LEAST, SHARE = 1e-5, 0.05
# The distance from the middle of a gap within which an image disproves it, as a share of the gap.
REACHED = 0.1
ORDINARY = 64


@requires("its inverse iterates")
def solves_nothing(flow: Flow) -> bool:
    """The inverse is in closed form."""
    return not flow.certainty.inverse


@law(
    "map/inverse[gap]",
    key="bijection/no-gap",
    scanned=True,
    tolerance=EXACT,
    local=False,
    effort=2,
    size=16,
    scales=NEARBY,
    applies=repeatable & in_double & solves_nothing,
    source="a spline that ends below the start of its tails leaves a gap in the image, without mass",
)
def no_gap(flow: Invertible, batch: Batch) -> Residual:
    """The image has no small gap: between the images of neighbouring points, $f(f^{-1}(z)) = z$
    halfway. Jumps without a gap, and wide gaps, are permitted.
    """
    if flow.domain.kind not in ("real", "interval", "positive", "unit"):
        raise Unsupported("its domain has no neighbors along all axes", blocked=False)
    x, context, rows = batch.x, batch.context, len(batch.x)
    here = images_or_nan(flow, x, context)
    step = BESIDE * (1 + np.abs(x))
    bad, known = np.zeros(rows, dtype=bool), finite_rows(here)
    ways = [(there, images_or_nan(flow, there, context)) for there in (x + step, x - step)]
    changes = [np.where(known, rows_max(value - here), np.nan) for _, value in ways]
    least = LEAST * (1 + rows_max(here))
    most = SHARE * _image_range(flow, context)
    gap = np.full(rows, np.nan)
    for (there, value), change, other in zip(ways, changes, changes[::-1], strict=True):
        with np.errstate(invalid="ignore"):
            jumps = (change > least) & (change > JUMPS * other) & (change < most)
        jumps &= flow.domain.holds(there) & finite_rows(value)
        if not jumps.any():
            continue
        middle = (here + value) / 2
        off = missed(flow, middle[jumps], None if context is None else context[jumps])
        with np.errstate(invalid="ignore"):
            bad[jumps] |= off > REACHED * change[jumps]
        gap[jumps] = change[jumps]
    note = ""
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        note = f"nothing maps to the middle of a gap of {gap[row]:.3g} next to f(x)"
    return Residual(bad.astype(float), decidable=known, observed={"f(x)": here}, note=note)


def images_or_nan(flow: Invertible, x: Array, context: Array | None) -> Array:
    """Images ``(n, *event)``, nan where forward raises. Raises `Unsupported` if latents have
    another shape than points.
    """
    out, error = attempt(flow.forward, x + 0.0, context)
    value = np.full(x.shape, np.nan) if error else np.asarray(out.value, dtype=np.float64)
    if value.shape != x.shape:
        raise Unsupported("its latents have another shape than its points", blocked=False)
    return value


def _image_range(flow: Invertible, context: Array | None) -> float:
    points = draw_points(flow.domain, (ORDINARY, *flow.event_shape), np.random.default_rng(0))
    contexts = None if context is None else np.repeat(context[:1], ORDINARY, axis=0)
    value = images_or_nan(flow, points, contexts)
    return float(np.nan_to_num(np.ptp(np.quantile(value, (0.1, 0.9))))) if value.size else 0.0


def missed(flow: Invertible, z: Array, context: Array | None) -> Array:
    """$|f(f^{-1}(z)) - z|$ per row, ``(n,)``; 0 where the inverse returns nothing finite."""
    back, error = attempt(flow.inverse, z + 0.0, context)
    value = np.full(z.shape, np.nan) if error else np.asarray(back.value, dtype=np.float64)
    if value.shape != z.shape or not flow.domain.holds(value[finite_rows(value)]).all():
        return np.zeros(len(z))
    again = images_or_nan(flow, np.nan_to_num(value), context)
    good = finite_rows(value) & finite_rows(again)
    return np.where(good, np.nan_to_num(rows_max(again - z)), 0.0)
