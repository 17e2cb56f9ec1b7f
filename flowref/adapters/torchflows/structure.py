"""Structure of torchflows classes: couplings, squeezes and levels."""

from __future__ import annotations

import math
from typing import Any

from flowref.adapters.common.object_components import lineage
from flowref.adapters.common.structure import own_class, repeated_mask
from flowref.model import Coupling, MultiScale, Shape, Squeezing

# Class name -> kind of transformer; all other scalar ones are elementwise.
KINDS = {"Affine": "affine", "InverseAffine": "affine", "Shift": "additive"}


def coupling(obj: Any, shape: Shape) -> Coupling | None:
    """The coupling of a bijection, or None."""
    if not own_class(obj, "torchflows") or "CouplingBijection" not in lineage(obj):
        return None
    scalar = "ScalarTransformer" in lineage(obj.transformer)
    kind = KINDS.get(type(obj.transformer).__name__, "elementwise") if scalar else "joint"
    kept = repeated_mask(~obj.coupling.target_mask, shape)
    return Coupling(kept, kind, conditioner="conditioner_transform")


def squeezing(obj: Any) -> Squeezing | None:
    """The squeeze of a bijection, or None."""
    return Squeezing() if own_class(obj, "torchflows") == "Squeeze" else None


def multi_scale(obj: Any) -> MultiScale | None:
    """The levels of a bijection, or of a flow over one; None for others."""
    if not own_class(obj, "torchflows"):
        return None
    if "bijection" in vars(obj).get("_modules", {}):
        return _levels(obj.bijection, "bijection.")
    return _levels(obj, "")


def _levels(obj: Any, prefix: str) -> MultiScale | None:
    """Latents keep the shape of an image: factored-out entries stay in the first channels of the image
    squeezed once more.
    """
    import torch

    if not own_class(obj, "torchflows") or "MultiscaleBijection" not in lineage(obj):
        return None
    shapes: list[Shape] = []
    levels: list[tuple[str, ...]] = []
    entries: list[tuple[int, ...]] = []
    image = torch.arange(math.prod(obj.event_shape)).reshape(tuple(obj.event_shape))
    while obj is not None:
        rows = _layer_paths(f"{prefix}checkerboard_layers", obj.checkerboard_layers)
        inner, leaving = getattr(obj, "small_bijection", None), image
        if inner is not None:
            rows += _layer_paths(f"{prefix}channel_wise_layers", obj.channel_wise_layers)
            leaving, image = obj.alt_squeeze.forward(image[None])[0][0].chunk(2, 0)
        shapes.append(tuple(leaving.shape))
        levels.append(tuple(rows))
        entries.append(tuple(leaving.flatten().tolist()))
        obj, prefix = inner, f"{prefix}small_bijection."
    return MultiScale(tuple(shapes), tuple(levels), tuple(entries))


def _layer_paths(prefix: str, layers: Any) -> list[str]:
    return [f"{prefix}.{index}" for index in range(len(layers))]
