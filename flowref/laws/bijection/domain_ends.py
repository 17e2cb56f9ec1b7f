"""The ends of a bounded domain, which occur in data such as pixels and angles."""

from __future__ import annotations

import numpy as np

from flowref.laws.common.amounts import planned
from flowref.laws.common.outcomes import attempt, row_log_dets
from flowref.laws.common.requirements import repeatable
from flowref.model import ADVICE, EXACT, GIVEN, Array, Batch, Residual, Unsupported, law, requires
from flowref.model.abilities import Bijection, Flow

# Relative distances from an end at which the limit is estimated, and the tolerated jump.
NEARER, NEAR, APART = 2.0**-44, 2.0**-34, 1e-3
ENTRIES, ENTRIES_OF_HEAVY = 4, 1


@requires("its domain has no ends")
def has_ends(flow: Flow) -> bool:
    """The domain has a finite end."""
    return flow.domain.has_end and not flow.domain.joint


# Advice: domains are declared as open intervals, and some data never reach the ends.
@law(
    "map/domain[ends]",
    key="bijection/closed-ends",
    force=ADVICE,
    tolerance=EXACT,
    local=False,
    effort=1,
    size=3,
    scales=GIVEN,
    applies=has_ends & repeatable,
    source="pixels are 0 and 1, and the last bin of a spline is that of the end as well",
    pointwise=True,
)
def closed_ends(flow: Bijection, batch: Batch) -> Residual:
    """At the ends of its domain a map raises, is not finite, or returns its limit there, in value
    and log-det: a jump means that the end falls into a wrong bin.
    """
    rows, flat = len(batch.x), batch.x.reshape(len(batch.x), -1)
    lows, highs = (np.broadcast_to(end, flat.shape[1:]) for end in flow.domain.ends)
    jumps = np.zeros(rows)
    note, seen = "", False
    entries = planned(flow, ENTRIES, ENTRIES_OF_HEAVY)
    for entry in range(min(entries, flat.shape[1])):
        ends = (float(lows[entry]), float(highs[entry]))
        tended: list[Array | None] = []
        for end, inward in zip(ends, (1.0, -1.0), strict=True):
            tended.append(limit(flow, batch, entry, end, inward * width(*ends)))
        for which, end in enumerate(ends):
            there, other = tended[which], tended[1 - which]
            out = at(flow, batch, entry, end) if there is not None else None
            if there is None or out is None:
                continue
            seen = True
            off = _row_gap(out, there)
            if other is not None:  # an angle is periodic
                off = np.minimum(off, _row_gap(out, other))
            known = np.isfinite(out).all(1) & np.isfinite(there).all(1)
            wrong = known & (off > APART)
            if wrong.any() and not note:
                row = int(np.flatnonzero(wrong)[0])
                place = int(np.abs(out[row] - there[row]).argmax())
                name = "its log-det" if place == out.shape[1] - 1 else f"output {place}"
                note = (
                    f"at {end:g}, an end of its domain, {name} is {out[row, place]:.4g}, and its limit is "
                    f"{there[row, place]:.4g}"
                )
            jumps = np.maximum(jumps, wrong)
    if not seen:
        raise Unsupported("it rejects the ends of its domain, or has no limit there", blocked=False)
    return Residual(jumps, note=note)


def width(low: float, high: float) -> float:
    """Of a bounded interval, else of the part near its end."""
    return high - low if np.isfinite(high - low) else 1.0


def at(flow: Bijection, batch: Batch, entry: int, value: float) -> Array | None:
    """Value and log-det with coordinate ``entry`` set to ``value``, ``(n, outputs + 1)``; None if
    the call raises.
    """
    if not np.isfinite(value):
        return None
    rows = len(batch.x)
    x = batch.x.reshape(rows, -1).copy()
    x[:, entry] = value
    out, error = attempt(flow.forward, x.reshape(batch.x.shape), batch.context)
    if error:
        return None
    flat = np.asarray(out.value, dtype=np.float64).reshape(rows, -1)
    return np.concatenate([flat, row_log_dets(out, rows).reshape(rows, 1)], 1)


def limit(flow: Bijection, batch: Batch, entry: int, end: float, inward: float) -> Array | None:
    """The limit of value and log-det at an end, ``(n, outputs + 1)``; nan where two nearby points
    disagree, None if they are rejected.
    """
    nearer, near = (at(flow, batch, entry, end + share * inward) for share in (NEARER, NEAR))
    if nearer is None or near is None:
        return None
    with np.errstate(invalid="ignore"):
        settled = np.abs(nearer - near) <= 0.1 * APART * (1 + np.abs(nearer))
    return np.where(settled, nearer, np.nan)


def _row_gap(first: Array, second: Array) -> Array:
    with np.errstate(invalid="ignore"):
        off = np.abs(first - second) / (1 + np.abs(second))
    return np.asarray(np.nan_to_num(off, nan=0.0).max(1))
