"""Calls that an object offers work."""

from __future__ import annotations

from flowref.laws.common.outcomes import flags
from flowref.model import EXACT, GIVEN, Batch, Residual, law, requires
from flowref.model.abilities import Flow


@requires("its abilities are those of a library, which are known")
def looked_at(flow: Flow) -> bool:
    """Calls of user objects are tried when they are loaded."""
    return flow.facts.broken is not None


@law(
    "map/calls-work",
    key="conduct/abilities-work",
    tolerance=EXACT,
    local=False,
    effort=1,
    size=1,
    scales=GIVEN,
    applies=looked_at,
    source="an ability that always raises; what is not implemented raises NotImplementedError",
)
def abilities_work(flow: Flow, batch: Batch) -> Residual:
    """An inverse, a log-density and a sampler that are offered return a result at ordinary points.

    Calls that raise at all of them are dropped, and all other laws are checked without them.
    """
    broken = flow.facts.broken or {}
    note = "; ".join(f"{name} raises {error}" for name, error in broken.items())
    return flags(bool(broken), len(batch.x), note)
