"""The law of construction: making an object changes nothing but the object."""

from __future__ import annotations

from flowref.laws.common.probes import absent
from flowref.model import EXACT, Batch, Residual, law
from flowref.model.abilities import Living
from flowref.model.steps import Construct


@law(
    "conduct/construction",
    tolerance=EXACT,
    effort=1,
    size=1,
    scales=(0.0,),
    source="the default dtype and the random seed belong to the process; a layer that seeds makes all its copies alike",
)
def construction(flow: Living, batch: Batch) -> Residual:
    """Building an object leaves default dtype, gradient mode and other settings as they were, and
    no constructor seeds a generator that everybody shares.
    """
    built = flow.play([Construct()])[0]
    seen = [*built.globals, *(f"the random state of {name}" for name in built.seeded)]
    return absent(seen, len(batch.x), "building it set {}")
