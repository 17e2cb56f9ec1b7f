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
# Features of a transform that works at any width.
FEATURES = 3
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
    if not all(map(of_library, links(obj))):
        stated = getattr(obj, "domain", None)
        declared, first = stated is not None, REAL if stated is None else Support.parse(stated)
    return Facts(shape, shape, first, codomain, declared, promises=shared)


def is_reversible(obj: Any) -> bool:
    """Whether a transform of inputs has an inverse: a user's may derive from the base class alone."""
    if "ReversibleInputTransform" in lineage(obj):
        return True
    of_user = "InputTransform" in lineage(obj) and not of_library(obj)
    return of_user and any("untransform" in vars(kind) for kind in type(obj).__mro__[:1])


def of_library(obj: Any) -> bool:
    """Whether an object's class belongs to the library."""
    return type(obj).__module__.partition(".")[0] == "botorch"


def _width(obj: Any) -> Shape | None:
    """The event shape, if parameters have that width; None otherwise. A user's transform without
    parameters is taken at any width.
    """
    if "Warp" in lineage(obj):
        obj = obj._normalize
    width = getattr(obj, "_d", getattr(obj, "_m", None))
    if width is None and not of_library(obj):
        widths = {array.shape[-1] for array in obj.state_dict().values() if array.ndim}
        width = widths.pop() if len(widths) == 1 else None if widths else FEATURES
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
