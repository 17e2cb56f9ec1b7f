"""Structure of Pyro classes: couplings and batch normalization."""

from __future__ import annotations

from typing import Any

from flowref.adapters.common.structure import on_axis, own_class
from flowref.model import Coupling, Normalizer, Shape

# The inverse normalizes, as densities need. No conventions are documented.
BATCH_NORM = Normalizer(
    call="inverse",
    roles={
        "weight": "constrained_gamma",
        "bias": "beta",
        "running_mean": "moving_mean",
        "running_var": "moving_variance",
        "eps": "epsilon",
        "momentum": "momentum",
    },
)


def coupling(obj: Any, shape: Shape) -> Coupling | None:
    """The coupling of a transform, or None."""
    match own_class(obj, "pyro"):
        case "AffineCoupling":
            kept = on_axis(shape, range(obj.split_dim), len(shape) + obj.dim)
            ends = float(obj.log_scale_min_clip), float(obj.log_scale_max_clip)
            return Coupling(kept, "affine", conditioner="nn", log_scale=ends)
        case "SplineCoupling":
            kept = on_axis(shape, range(obj.split_dim), len(shape) - 1)
            return Coupling(kept, "elementwise", bool(obj.identity), "upper_spline.nn")
    return None
