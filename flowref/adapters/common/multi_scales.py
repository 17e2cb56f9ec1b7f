"""The squeezes and multi-scale maps of the libraries: the order of channels, and where latents
leave. Classes are known by name.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from flowref.adapters.common.described import lineage
from flowref.model import MultiScale, Shape, Squeezing

# Subclasses of users may do anything with positions; they can declare what they do by attributes.
INVERSES = {
    "flowref": "bijection",
    "nflows": "_transform",
    "glasflow": "_transform",
    "normflows": "flow",
}
OTHER = {"forward": "inverse", "inverse": "forward"}


def library(obj: Any) -> str:
    """The package of an object's class."""
    return type(obj).__module__.partition(".")[0]


def squeezing(obj: Any) -> Squeezing | None:
    """How a library's own squeeze, or its inverse, orders channels; None for all else."""
    name, package = type(obj).__name__, library(obj)
    if name in ("Inverse", "InverseTransform", "Reverse") and package in INVERSES:
        inner = squeezing(getattr(obj, INVERSES[package], None))
        return None if inner is None else replace(inner, call=OTHER[inner.call])
    match package, name:
        case "flowref", "Squeeze":
            return Squeezing(order=obj.order)
        case (("nflows" | "glasflow"), "SqueezeTransform"):
            return Squeezing(factor=int(obj.factor))
        case "normflows", "Squeeze":  # from the latent side, where an image has many channels
            return Squeezing("inverse")
        case "torchflows", "Squeeze":
            return Squeezing()
        # Their documentation groups the channels, and tells no order of the corners.
        case "FrEIA", "IRevNetDownsampling":
            return Squeezing()
        case "FrEIA", "IRevNetUpsampling":
            return Squeezing("inverse")
    return None


def multi_scale(obj: Any, prefix: str = "") -> MultiScale | None:
    """How latents leave a library's own multi-scale map, or a density over one; ``prefix`` leads to
    it.
    """
    package = library(obj)
    if package == "flowref":
        return _reference(obj, prefix)
    if package in ("nflows", "glasflow"):
        return _nflows(obj, prefix)
    if package == "normflows" and type(obj).__name__ == "MultiscaleFlow":
        return _normflows(obj)
    if package == "torchflows":
        flow = "bijection" in vars(obj).get("_modules", {})
        return (
            multi_scale(obj.bijection, "bijection.")
            if flow and not prefix
            else _torchflows(obj, prefix)
        )
    return None


def _reference(obj: Any, prefix: str) -> MultiScale | None:
    names = lineage(obj)
    if "Flow" in names:
        inner = multi_scale(obj.bijection, f"{prefix}bijection.")
        return (
            None
            if inner is None
            else replace(inner, base="normal" if "StandardNormal" in lineage(obj.base) else "")
        )
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
    """Kind and hidden width of the couplings and squeezes of a level of the reference."""
    found = []
    for layer in level.modules():
        if "Squeeze" in lineage(layer):
            found.append(("squeeze", 0))
        if "partition" in vars(layer).get("_modules", {}) and hasattr(layer.conditioner, "enter"):
            kind = "channel" if layer.partition.by_index else "checkerboard"
            found.append((kind, int(layer.conditioner.enter.out_channels)))
    return found


def _nflows(obj: Any, prefix: str) -> MultiScale | None:
    if hasattr(obj, "_distribution"):
        inner = _nflows(obj._transform, f"{prefix}_transform.")
        normal = "StandardNormal" in lineage(obj._distribution)
        return None if inner is None else replace(inner, base="normal" if normal else "")
    if type(obj).__name__ != "MultiscaleCompositeTransform":
        return None
    levels = tuple((f"{prefix}_transforms.{index}",) for index in range(len(obj._transforms)))
    return MultiScale(
        shapes=tuple(tuple(int(size) for size in shape) for shape in obj._output_shapes),
        levels=levels,
    )


def level_shapes(obj: Any) -> list[Shape]:
    """The latents of each level of a model of normflows, as it lists them: the last level first."""
    shapes = [base.shape for base in obj.q0]
    return [
        (shape,) if isinstance(shape, int) else tuple(int(size) for size in shape)
        for shape in shapes
    ]


def _normflows(obj: Any) -> MultiScale:
    shapes = level_shapes(obj)
    ends = [sum(math.prod(shape) for shape in shapes[:index]) for index in range(len(shapes) + 1)]
    order = range(len(shapes) - 1, -1, -1)
    return MultiScale(
        shapes=tuple(shapes[index] for index in order),
        levels=tuple(
            tuple(f"flows.{index}.{k}" for k in range(len(obj.flows[index]))) for index in order
        ),
        places=tuple(tuple(range(ends[index], ends[index + 1])) for index in order),
        call="inverse",
        around=() if obj.transform is None else ("transform",),
    )


def _torchflows(obj: Any, prefix: str) -> MultiScale | None:
    """Latents keep the shape of an image: what leaves stays in the first channels of the image
    squeezed once more.
    """
    import torch

    if "MultiscaleBijection" not in lineage(obj):
        return None
    shapes: list[Shape] = []
    levels: list[tuple[str, ...]] = []
    places: list[tuple[int, ...]] = []
    image = torch.arange(math.prod(obj.event_shape)).reshape(tuple(obj.event_shape))
    while obj is not None:
        rows = [
            f"{prefix}checkerboard_layers.{index}" for index in range(len(obj.checkerboard_layers))
        ]
        inner, leaving = getattr(obj, "small_bijection", None), image
        if inner is not None:
            rows += [
                f"{prefix}channel_wise_layers.{index}"
                for index in range(len(obj.channel_wise_layers))
            ]
            leaving, image = obj.alt_squeeze.forward(image[None])[0][0].chunk(2, 0)
        shapes.append(tuple(leaving.shape))
        levels.append(tuple(rows))
        places.append(tuple(leaving.flatten().tolist()))
        obj, prefix = inner, f"{prefix}small_bijection."
    return MultiScale(tuple(shapes), tuple(levels), tuple(places))
