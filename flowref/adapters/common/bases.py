"""Standard normal base distributions, recognized by class and parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowref.adapters.common.object_components import lineage

BASE = "standard-normal-base"
# Class -> names of its mean and scale, and whether the scale is a logarithm.
NORMALS: dict[str, tuple[str, str, bool]] = {
    "Normal": ("loc", "scale", False),
    "DiagGaussian": ("loc", "log_scale", True),
    "DiagonalGaussian": ("loc", "log_scale", True),
}


def base_promises(base: Any) -> dict[str, Any]:
    """The promise of a standard normal base; "initially" if it is trained with the flow; empty if it is
    none.
    """
    normal = standard_normal(base)
    return {BASE: normal} if normal else {}


def standard_normal(base: Any) -> Any:
    """True for a standard normal base, "initially" if its parameters are trained, else False."""
    names = lineage(base)
    if "StandardNormal" in names:
        return True
    if "Independent" in names:
        return standard_normal(base.base_dist)
    if "MultivariateNormal" in names:
        covariance = _numpy_values(base.covariance_matrix)
        return _all_equal_to(base.loc, 0.0) and _all_equal_to(
            covariance - np.eye(len(covariance)), 0.0
        )
    for name, (mean, deviation, logarithm) in NORMALS.items():
        if name in names and hasattr(base, mean) and hasattr(base, deviation):
            values = [getattr(base, mean), getattr(base, deviation)]
            if not (
                _all_equal_to(values[0], 0.0)
                and _all_equal_to(values[1], 0.0 if logarithm else 1.0)
            ):
                return False
            return "initially" if any(map(_is_trainable, values)) else True
    return False


def _numpy_values(values: Any) -> Any:
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)


def _all_equal_to(values: Any, number: float) -> bool:
    return bool((_numpy_values(values) == number).all())


def _is_trainable(value: Any) -> bool:
    return bool(getattr(value, "requires_grad", hasattr(value, "dtype")))
