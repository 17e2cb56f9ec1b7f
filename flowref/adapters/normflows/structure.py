"""Structure of normflows classes: couplings, squeezes, levels and batch normalization."""

from __future__ import annotations

import math
from typing import Any

from flowref.adapters.common.shapes import as_shape
from flowref.adapters.common.structure import inverted, on_axis, own_class, repeated_mask
from flowref.model import Coupling, MultiScale, Normalizer, Shape, Squeezing

# It has neither parameters nor running statistics.
BATCH_NORM = Normalizer(roles={"eps": "eps"})


def coupling(obj: Any, shape: Shape) -> Coupling | None:
    """The coupling of a flow, or None."""
    match own_class(obj, "normflows"):
        case "AffineCouplingBlock":
            return _block(obj, shape)
        case "MaskedAffineFlow":
            return _masked_affine(obj, shape)
        case "CoupledRationalQuadraticSpline" | "CircularCoupledRationalQuadraticSpline":
            inner = obj.prqct
            kept = on_axis(shape, inner.identity_features.tolist())
            copied = inner.unconditional_transform is None
            return Coupling(kept, "elementwise", copied, "prqct.transform_net")
    return None


def _block(obj: Any, shape: Shape) -> Coupling:
    """The coupling that keeps the first half of the channels, or the entries of one color."""
    mode, half = obj.flows[0].mode, (shape[0] + 1) // 2
    if "channel" in mode:
        kept = on_axis(shape, range(half, shape[0]) if "inv" in mode else range(half))
    else:
        colors = [sum(_indices(index, shape)) % 2 for index in range(math.prod(shape))]
        kept = tuple(float(color != ("inv" in mode)) for color in colors)
    kind = "affine" if obj.flows[1].scale else "additive"
    return Coupling(kept, kind, conditioner="flows.1.param_map")


def _indices(index: int, shape: Shape) -> list[int]:
    """The multi-index of an entry of a flattened event, last axis first."""
    indices = []
    for size in reversed(shape):
        indices.append(index % size)
        index //= size
    return indices


def _masked_affine(obj: Any, shape: Shape) -> Coupling:
    """The coupling of two networks, one of which may be missing."""
    scaled, shifted = hasattr(obj.s, "parameters"), hasattr(obj.t, "parameters")
    return Coupling(
        repeated_mask(obj.b, shape),
        "affine" if scaled else "additive",
        conditioner="s" if scaled else "t" if shifted else "",
        masked=True,
    )


def squeezing(obj: Any) -> Squeezing | None:
    """The channel order of a squeeze or its inverse; None for other flows."""
    match own_class(obj, "normflows"):
        case "Reverse":
            return inverted(squeezing(obj.flow))
        case "Squeeze":  # seen from the latent side, where an image has many channels
            return Squeezing("inverse")
    return None


def level_shapes(obj: Any) -> list[Shape]:
    """The latent shapes of a multi-scale model, in its order: last level first."""
    return [as_shape(base.shape) for base in obj.q0]


def multi_scale(obj: Any) -> MultiScale | None:
    """The levels of a multi-scale model; None for others."""
    if own_class(obj, "normflows") != "MultiscaleFlow":
        return None
    shapes = level_shapes(obj)
    ends = [sum(math.prod(shape) for shape in shapes[:index]) for index in range(len(shapes) + 1)]
    order = range(len(shapes) - 1, -1, -1)
    return MultiScale(
        shapes=tuple(shapes[index] for index in order),
        levels=tuple(
            tuple(f"flows.{index}.{k}" for k in range(len(obj.flows[index]))) for index in order
        ),
        entries=tuple(tuple(range(ends[index], ends[index + 1])) for index in order),
        call="inverse",
        around=() if obj.transform is None else ("transform",),
    )
