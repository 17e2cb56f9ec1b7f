"""Structure of Zuko classes: couplings."""

from __future__ import annotations

from typing import Any

from flowref.adapters.common.structure import own_class, repeated_mask
from flowref.model import Coupling, Shape

# Class name -> kind of univariate map; all others are elementwise.
KINDS = {"MonotonicAffineTransform": "affine", "AdditiveTransform": "additive"}


def coupling(obj: Any, shape: Shape) -> Coupling | None:
    """The coupling of a lazy transform, or None."""
    if own_class(obj, "zuko") != "GeneralCouplingTransform":
        return None
    kind = KINDS.get(getattr(obj.univariate, "__name__", ""), "elementwise")
    return Coupling(repeated_mask(obj.mask, shape), kind, conditioner="hyper")
