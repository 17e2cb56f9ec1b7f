"""Structure of FrEIA modules: couplings and squeezes."""

from __future__ import annotations

from typing import Any

from flowref.adapters.common.structure import on_axis, own_class
from flowref.model import Coupling, Shape, Squeezing


def coupling(obj: Any, shape: Shape) -> Coupling | None:
    """The coupling of a module, or None: one kind of block transforms one part only, all others transform
    both.
    """
    if own_class(obj, "FrEIA") != "AffineCouplingOneSided":
        return None
    end = float(obj.clamp)
    kept = on_axis(shape, range(obj.split_len1))
    return Coupling(kept, "affine", conditioner="subnet", log_scale=(-end, end))


def squeezing(obj: Any) -> Squeezing | None:
    """The squeeze of a module, or None. The documentation groups channels, without an order of corners."""
    match own_class(obj, "FrEIA"):
        case "IRevNetDownsampling":
            return Squeezing()
        case "IRevNetUpsampling":
            return Squeezing("inverse")
    return None
