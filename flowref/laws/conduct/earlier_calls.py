"""Calls do not depend on earlier calls at other points."""

from __future__ import annotations

from flowref.laws.common.cases import NO_GRAD
from flowref.laws.common.outcomes import attempt
from flowref.laws.common.probes import WITH_KERNELS, probe_agreement_residual, probes
from flowref.laws.common.requirements import repeatable
from flowref.model import NEARBY, Batch, Residual, Unsupported, law
from flowref.model.abilities import Living
from flowref.model.steps import Eval, Reread

BEFORE = "calls made before at other points change the result"
AFTER = "calls made after it, at other points, change what a call has returned"


@law(
    "same/history[other-calls]",
    key="conduct/earlier-calls",
    effort=2,
    size=16,
    scales=NEARBY,
    applies=repeatable,
    version=2,
    source="a cache of the last input or output is asked for another one, or for the other direction",
    cases=(NO_GRAD,),
)
def earlier_calls(flow: Living, batch: Batch) -> Residual:
    """In eval mode, the result of a call does not depend on earlier calls, of other kinds or at
    other points, and is not changed by later ones.
    """
    if len(batch.x) < 2:
        raise Unsupported("there is only one point", blocked=False)
    probed = probes(flow, batch, calls=WITH_KERNELS)
    # Points are shifted by one row, so that each is accepted; the calls are made in reverse order,
    # so that the state left by another one is still present.
    moved = [probe.rows([-1, *range(len(batch.x) - 1)]) for probe in reversed(probed)]
    begin = [Eval()] if flow.stateful else []
    asked = [probe.step() for probe in moved]
    before = [probe.step(kept=True) for probe in probed]
    reread = [Reread(one) for one in before]
    alone, error = attempt(lambda: [flow.play([*begin, one])[-1] for one in asked])
    life, refusal = attempt(flow.play, [*begin, *before, *asked, *reread])
    if alone is None or life is None:
        raise Unsupported(f"it refuses to be called so often ({error or refusal})")
    count, rows = len(asked), len(batch.x)
    first, last, later = (life[len(begin) + at * count :][:count] for at in range(3))
    behind = list(zip(moved, alone, last, strict=True))
    ahead = list(zip(probed, first, later, strict=True))
    written = probe_agreement_residual(ahead, rows, "").per_row().max(initial=0.0) > 0
    return probe_agreement_residual([*behind, *ahead], rows, AFTER if written else BEFORE)
