"""Which bases are standard normal, by their class and parameters."""

from __future__ import annotations

from typing import Any

from flowref.adapters.common.described import lineage

BASE = "standard-normal-base"
# Class -> the names of its mean, and of its deviations and whether they are logarithms.
NORMALS: dict[str, tuple[str, str, bool]] = {
    "Normal": ("loc", "scale", False),
    "DiagGaussian": ("loc", "log_scale", True),
    "DiagonalGaussian": ("loc", "log_scale", True),
}


def base_promises(base: Any) -> dict[str, Any]:
    """The promise of a standard normal base; "initially" where it is trained with the rest."""
    normal = standard_normal(base)
    return {BASE: normal} if normal else {}


def standard_normal(base: Any) -> Any:
    """True, "initially" or False, as far as the class of a base tells."""
    names = lineage(base)
    if "StandardNormal" in names:
        return True
    if "Independent" in names:
        return standard_normal(base.base_dist)
    if "MultivariateNormal" in names:
        return _equal(base.loc, 0.0) and bool(
            (base.covariance_matrix - _eye(base)).abs().max() == 0
        )
    for name, (mean, deviation, logarithm) in NORMALS.items():
        if name in names and hasattr(base, mean) and hasattr(base, deviation):
            values = [getattr(base, mean), getattr(base, deviation)]
            if not (_equal(values[0], 0.0) and _equal(values[1], 0.0 if logarithm else 1.0)):
                return False
            return "initially" if any(value.requires_grad for value in values) else True
    return False


def _equal(values: Any, number: float) -> bool:
    return bool((values == number).all())


def _eye(base: Any) -> Any:
    import torch

    return torch.eye(base.loc.shape[-1], dtype=base.loc.dtype)
