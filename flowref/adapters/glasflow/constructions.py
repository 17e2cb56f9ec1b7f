"""Constructions of the flows of glasflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def flows() -> dict[str, Callable[..., Any]]:
    """Name -> builder, for flows without a context."""
    return {
        **{
            f"RealNVP[linear={kind}]": _real_nvp(linear_transform=kind)
            for kind in (None, "permutation", "lu", "svd")
        },
        "RealNVP[bn_between]": _real_nvp(batch_norm_between_transforms=True),
        "RealNVP[volume_preserving]": _real_nvp(volume_preserving=True),
        "RealNVP[features=2]": lambda features=2: _real_nvp()(features),
        "CouplingNSF": _coupling_nsf(),
        "CouplingNSF[features=2]": lambda features=2: _coupling_nsf()(features),
        "CouplingNSF[uniform]": _coupling_nsf(distribution="uniform"),
        "MaskedAffineAutoregressiveFlow": _autoregressive("MaskedAffine"),
        "MaskedPiecewiseRationalQuadraticAutoregressiveFlow": _autoregressive(
            "MaskedPiecewiseRationalQuadratic", tails="linear", tail_bound=3.0
        ),
    }


def conditional_flows() -> dict[str, Callable[..., Any]]:
    """Name -> builder, for flows with a context."""
    return {"RealNVP[conditional]": _real_nvp(n_conditional_inputs=3)}


def promised(name: str) -> dict[str, bool]:
    """Promises implied by a flow's name: its couplings transform every entry."""
    return {"transforms-all": True} if name.startswith(("RealNVP", "CouplingNSF")) else {}


def _real_nvp(**fixed: Any) -> Callable[..., Any]:
    def build(features: int = 4, n_transforms: int = 2) -> Any:
        from glasflow import RealNVP

        return RealNVP(features, n_transforms, **fixed)

    return build


def _coupling_nsf(**fixed: Any) -> Callable[..., Any]:
    def build(features: int = 4, n_transforms: int = 2) -> Any:
        from glasflow import CouplingNSF

        return CouplingNSF(features, n_transforms, **fixed)

    return build


def _autoregressive(kind: str, **fixed: Any) -> Callable[..., Any]:
    def build(features: int = 4, n_transforms: int = 2) -> Any:
        from glasflow.flows import autoregressive

        return getattr(autoregressive, f"{kind}AutoregressiveFlow")(features, n_transforms, **fixed)

    return build
