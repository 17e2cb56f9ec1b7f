"""The law of calls at other points that were made before."""

from __future__ import annotations

from flowref.laws.common.outcomes import attempt
from flowref.laws.common.probes import WITH_KERNELS, probes, same
from flowref.laws.common.requirements import repeatable
from flowref.model import Batch, Residual, Unsupported, law
from flowref.model.abilities import Living
from flowref.model.steps import Eval


@law(
    "conduct/earlier-calls",
    effort=2,
    size=16,
    scales=(0.0, 0.3),
    applies=repeatable,
    source="a cache of the last input or output is asked for another one, or for the other direction",
)
def earlier_calls(flow: Living, batch: Batch) -> Residual:
    """In eval mode, what a call returns does not depend on calls that were made before it, of other
    kinds or at other points.
    """
    if len(batch.x) < 2:
        raise Unsupported("there is one point only", waits=False)
    probed = probes(flow, batch, calls=WITH_KERNELS)
    # Each point becomes the one before it, which is a point that the call takes; the call that was
    # made last comes first, so that what another one has left behind is still there.
    moved = [probe.rows([-1, *range(len(batch.x) - 1)]) for probe in reversed(probed)]
    begin = [Eval()] if flow.stateful else []
    asked = [probe.step() for probe in moved]
    before = [probe.step() for probe in probed]
    alone, error = attempt(lambda: [flow.play([*begin, one])[-1] for one in asked])
    after, refusal = attempt(flow.play, [*begin, *before, *asked])
    if alone is None or after is None:
        raise Unsupported(f"it refuses to be called so often ({error or refusal})")
    count = len(asked)
    seen = zip(moved, alone, after[-count:], strict=True)
    return same(seen, len(batch.x), "calls made before at other points change the result")
