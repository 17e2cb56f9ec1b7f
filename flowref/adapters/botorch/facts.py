"""Facts of BoTorch transforms: widths and domains; all act coordinatewise."""

from __future__ import annotations

from typing import Any

from flowref.adapters.common.object_components import lineage
from flowref.adapters.common.promises import ELEMENTWISE, class_promises
from flowref.adapters.common.shapes import unknown_shape
from flowref.model import REAL, Facts, Shape, Support

# Coordinatewise and increasing.
PROMISES = dict.fromkeys(
    ("AffineInputTransform", "Log10", "Warp", "Standardize", "Log", "Power", "Bilog"),
    ELEMENTWISE,
)
LOGARITHMS, UNIT = ("Log10", "Log", "Power"), Support.parse("unit")
POSITIVE = Support.parse("positive")
# With the reals as range.
ONTO = ("AffineInputTransform", "Standardize", "Bilog")
CHAINS = ("ChainedInputTransform", "ChainedOutcomeTransform")


def links(obj: Any) -> list[Any]:
    """The transforms of a chain in order; else the transform itself."""
    return list(obj.values()) if lineage(obj) & set(CHAINS) else [obj]


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a transform."""
    widths = [width for one in links(obj) if (width := _width(one)) is not None]
    shape = event_shape or (widths[0] if widths else None)
    if not shape:
        raise unknown_shape(obj)
    first, *later = [_domain(one, shape) for one in links(obj)]
    codomain = REAL if all(lineage(one) & set(ONTO) for one in links(obj)) else None
    promises = [class_promises(PROMISES, lineage(one)) for one in links(obj)]
    shared = dict.fromkeys(frozenset.intersection(*promises), True)
    declared = all(domain == REAL for domain in later)
    return Facts(shape, shape, first, codomain, declared, promises=shared)


def _width(obj: Any) -> Shape | None:
    """The event shape, if parameters have that width; None otherwise."""
    if "Warp" in lineage(obj):
        obj = obj._normalize
    width = getattr(obj, "_d", getattr(obj, "_m", None))
    return None if width is None else (int(width),)


def _domain(obj: Any, shape: Shape) -> Support:
    """The domain of a transform, restricted on its indices only."""
    names = lineage(obj)
    if "Warp" in names:
        inside = UNIT
    elif names & set(LOGARITHMS):
        inside = POSITIVE
    else:
        return REAL
    indices = getattr(obj, "indices", getattr(obj, "_outputs", None))
    if indices is None or len(shape) != 1:
        return inside
    taken = {int(index) % shape[0] for index in indices}
    if taken == set(range(shape[0])):
        return inside
    return Support.product([inside if index in taken else REAL for index in range(shape[0])])
