"""Structure of flowref's reference layers: couplings, squeezes, levels and preprocessing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flowref.adapters.common.object_components import lineage
from flowref.adapters.common.structure import inverted, on_axis, own_class, repeated_mask
from flowref.model import Coupling, MultiScale, Preprocessing, Shape, Squeezing


def coupling(obj: Any, shape: Shape) -> Coupling | None:
    """The coupling of a layer, or None."""
    name = own_class(obj, "flowref")
    kinds = {
        "AffineCoupling": "affine",
        "AdditiveCoupling": "additive",
        "SplineCoupling": "elementwise",
    }
    if name not in kinds:
        return None
    mask, by_index = obj.partition.mask, obj.partition.by_index
    return Coupling(
        on_axis(shape, mask.nonzero()[:, 0].tolist()) if by_index else repeated_mask(mask, shape),
        kinds[name],
        conditioner="conditioner",
        masked=not by_index,
        log_scale="scale" if kinds[name] == "affine" else None,
    )


def squeezing(obj: Any) -> Squeezing | None:
    """The channel order of a squeeze or its inverse; None for other layers."""
    match own_class(obj, "flowref"):
        case "Inverse":
            return inverted(squeezing(obj.bijection))
        case "Squeeze":
            return Squeezing(order=obj.order)
    return None


def multi_scale(obj: Any, prefix: str = "") -> MultiScale | None:
    """The levels of a multi-scale map, or of a flow over one at the attribute path ``prefix``."""
    if not own_class(obj, "flowref"):
        return None
    names = lineage(obj)
    if "Flow" in names:
        inner = multi_scale(obj.bijection, f"{prefix}bijection.")
        normal = "StandardNormal" in lineage(obj.base)
        return None if inner is None else replace(inner, base="normal" if normal else "")
    if "RealNVP" in names:
        inner = multi_scale(obj.scales, f"{prefix}scales.")
        return None if inner is None else replace(inner, around=(f"{prefix}preprocessing",))
    if "MultiScale" not in names:
        return None
    return MultiScale(
        shapes=tuple(obj.shapes),
        levels=tuple((f"{prefix}levels.{index}",) for index in range(len(obj.levels))),
        architecture=tuple(tuple(_layers(level)) for level in obj.levels),
    )


def _layers(level: Any) -> list[tuple[str, int]]:
    """Kind and hidden width of the couplings and squeezes of a level."""
    layers = []
    for layer in level.modules():
        if "Squeeze" in lineage(layer):
            layers.append(("squeeze", 0))
        if "partition" in vars(layer).get("_modules", {}) and hasattr(layer.conditioner, "enter"):
            kind = "channel" if layer.partition.by_index else "checkerboard"
            layers.append((kind, int(layer.conditioner.enter.out_channels)))
    return layers


def preprocessing(obj: Any) -> Preprocessing | None:
    """The logit of a layer, or the one that a flow begins with."""
    names = lineage(obj)
    if "Logit" in names:
        return Preprocessing(obj.alpha, obj.bound)
    inner = obj.bijection if "Flow" in names else obj.preprocessing if "RealNVP" in names else None
    if "Chain" in names:
        inner = next(iter(obj), None)
    first = None if inner is None else preprocessing(inner)
    return None if first is None else replace(first, alone=False)
