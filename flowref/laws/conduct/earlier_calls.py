"""The law of calls at other points that were made before."""

from __future__ import annotations

import numpy as np

from flowref.laws.common.outcomes import attempt
from flowref.laws.common.probes import WITH_KERNELS, Probe, probes, same
from flowref.laws.common.requirements import repeatable
from flowref.model import Batch, Mapped, Residual, Unsupported, law
from flowref.model.abilities import Living
from flowref.model.steps import Eval

BEFORE = "calls made before at other points change the result"
AFTER = "calls made after it, at other points, change what a call has returned"


@law(
    "conduct/earlier-calls",
    effort=2,
    size=16,
    scales=(0.0, 0.3),
    applies=repeatable,
    version=2,
    source="a cache of the last input or output is asked for another one, or for the other direction",
)
def earlier_calls(flow: Living, batch: Batch) -> Residual:
    """In eval mode, what a call returns does not depend on calls that were made before it, of other
    kinds or at other points, and stays what it was when calls are made after it.
    """
    if len(batch.x) < 2:
        raise Unsupported("there is one point only", waits=False)
    probed = probes(flow, batch, calls=WITH_KERNELS)
    # Each point becomes the one before it, which is a point that the call takes; the call that was
    # made last comes first, so that what another one has left behind is still there.
    moved = [probe.rows([-1, *range(len(batch.x) - 1)]) for probe in reversed(probed)]
    begin = [Eval()] if flow.stateful else []
    asked = [probe.step() for probe in moved]
    before = [probe.step(kept=True) for probe in probed]
    alone, error = attempt(lambda: [flow.play([*begin, one])[-1] for one in asked])
    after, refusal = attempt(flow.play, [*begin, *before, *asked])
    if alone is None or after is None:
        raise Unsupported(f"it refuses to be called so often ({error or refusal})")
    count = len(asked)
    first, last = after[-2 * count : -count], after[-count:]
    behind = list(zip(moved, alone, last, strict=True))
    # What the calls before returned, in the order of those that were made alone, each point in its place.
    kept = zip(moved, alone, reversed(first), strict=True)
    ahead = [(one, _back(one, out), held) for one, out, held in kept if one.pointwise]
    rows = len(batch.x)
    later = bool(ahead) and _largest(same(ahead, rows, "")) > _largest(same(behind, rows, ""))
    return same([*behind, *ahead], rows, AFTER if later else BEFORE)


def _largest(residual: Residual) -> float:
    return float(np.nan_to_num(residual.per_row(), nan=np.inf).max(initial=0.0))


def _back(probe: Probe, out: Mapped) -> Mapped:
    """An outcome of points that were moved by one, with each in its place again."""
    rows = len(probe.points)
    ladj = out.ladj
    if ladj is not None and np.shape(ladj)[:1] == (rows,):
        ladj = np.roll(np.asarray(ladj), -1, axis=0)
    return Mapped(np.roll(out.value, -1, axis=0), ladj)
