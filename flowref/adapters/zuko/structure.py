"""The structure that the classes of Zuko have: couplings."""

from __future__ import annotations

from typing import Any

from flowref.adapters.common.structure import own_class, repeated_mask
from flowref.model import Coupling, Shape

# Univariate maps by the name of their class; all others are elementwise.
KINDS = {"MonotonicAffineTransform": "affine", "AdditiveTransform": "additive"}


def coupling(obj: Any, shape: Shape) -> Coupling | None:
    """The coupling that a lazy transform is, or None."""
    if own_class(obj, "zuko") != "GeneralCouplingTransform":
        return None
    kind = KINDS.get(getattr(obj.univariate, "__name__", ""), "elementwise")
    return Coupling(repeated_mask(obj.mask, shape), kind, conditioner="hyper")
