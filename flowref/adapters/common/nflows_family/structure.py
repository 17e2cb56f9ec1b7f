"""Structure of the classes of nflows and its copies: couplings, squeezes, levels and batch normalization."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flowref.adapters.common.object_components import lineage
from flowref.adapters.common.shapes import as_shape
from flowref.adapters.common.structure import inverted, on_axis, own_class
from flowref.model import Coupling, MultiScale, Normalizer, Preprocessing, Shape, Squeezing

PACKAGES = ("nflows", "glasflow")
# The weight has an unconstrained parametrization. No conventions are documented.
BATCH_NORM = Normalizer(
    roles={
        name: name for name in ("weight", "bias", "running_mean", "running_var", "eps", "momentum")
    },
)
KINDS = {"AffineCouplingTransform": "affine", "AdditiveCouplingTransform": "additive"}


def coupling(obj: Any, shape: Shape) -> Coupling | None:
    """The coupling of a transform, or None."""
    name = own_class(obj, *PACKAGES)
    if not name or "CouplingTransform" not in lineage(obj):
        return None
    kind = KINDS.get(name, "elementwise" if name.startswith("Piecewise") else "joint")
    copied = obj.unconditional_transform is None
    return Coupling(on_axis(shape, obj.identity_features.tolist()), kind, copied, "transform_net")


def squeezing(obj: Any) -> Squeezing | None:
    """The channel order of a squeeze or its inverse; None for other transforms."""
    name = own_class(obj, *PACKAGES)
    if name == "InverseTransform":
        return inverted(squeezing(obj._transform))
    return Squeezing(factor=int(obj.factor)) if name == "SqueezeTransform" else None


def multi_scale(obj: Any, prefix: str = "") -> MultiScale | None:
    """The levels of a multi-scale transform, or of a flow over one at the attribute path ``prefix``."""
    name = own_class(obj, *PACKAGES)
    if name and hasattr(obj, "_distribution"):
        inner = multi_scale(obj._transform, f"{prefix}_transform.")
        normal = "StandardNormal" in lineage(obj._distribution)
        return None if inner is None else replace(inner, base="normal" if normal else "")
    if name != "MultiscaleCompositeTransform":
        return None
    return MultiScale(
        shapes=tuple(as_shape(shape) for shape in obj._output_shapes),
        levels=tuple((f"{prefix}_transforms.{index}",) for index in range(len(obj._transforms))),
    )


def preprocessing(obj: Any) -> Preprocessing | None:
    """The logit of unit-interval data at the default temperature, or None."""
    if "Logit" not in lineage(obj) or float(obj._transform.temperature.detach()) != 1:
        return None
    return Preprocessing()
