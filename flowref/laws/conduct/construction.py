"""Building an object has no side effects."""

from __future__ import annotations

from flowref.laws.common.probes import absent
from flowref.laws.common.requirements import has_modules
from flowref.model import EXACT, GIVEN, Batch, Residual, law
from flowref.model.abilities import Living
from flowref.model.steps import Construct, Inherited


@law(
    "effects/construction[settings]",
    key="conduct/construction",
    tolerance=EXACT,
    effort=1,
    size=1,
    scales=GIVEN,
    source="the default dtype and the random seed belong to the process; a layer that seeds makes all its copies alike",
)
def construction(flow: Living, batch: Batch) -> Residual:
    """Building an object leaves the default dtype, the gradient mode and other settings unchanged,
    and seeds no global random generator.
    """
    built = flow.play([Construct()])[0]
    seen = [*built.globals, *(f"the random state of {name}" for name in built.seeded)]
    return absent(seen, len(batch.x), "building it set {}")


@law(
    "effects/construction[sharing]",
    key="conduct/instances-share-nothing",
    tolerance=EXACT,
    effort=1,
    size=1,
    scales=GIVEN,
    applies=has_modules,
    source="a default of an argument is evaluated once, when the class is defined (Python reference, function "
    "definitions): a network there is trained by every object",
)
def instances_share_nothing(flow: Living, batch: Batch) -> Residual:
    """Two objects of one class have separate parameters: none is the default of a constructor
    argument, or an attribute of the class.
    """
    (seen,) = flow.play([Inherited()])
    return absent(seen, len(batch.x), "all objects of the class share {}")
