"""Zuko's distributions without transforms."""

from __future__ import annotations

from typing import Any

from flowref.adapters.common.object_components import Constructions


def constructions() -> Constructions:
    """Name -> (builder, event shape); by default ``(features,)``."""
    import torch
    from zuko import distributions as zd
    from zuko.transforms import MonotonicAffineTransform

    normal, uniform = torch.distributions.Normal, torch.distributions.Uniform

    def mixture(features: int = 2, components: int = 3) -> Any:
        places, scales = (
            2 * torch.randn(components, features),
            0.5 + torch.rand(components, features),
        )
        return zd.Mixture(zd.DiagNormal(places, scales), torch.randn(components))

    def diagonal(features: int = 4) -> Any:
        return zd.DiagNormal(torch.randn(features), 0.5 + torch.rand(features))

    def joint() -> Any:
        return zd.Joint(normal(0.5, 2.0), zd.DiagNormal(torch.zeros(2), torch.ones(2)))

    def shifted() -> Any:
        affine = MonotonicAffineTransform(torch.tensor(0.5), torch.tensor(0.3))
        return zd.TransformedUniform(affine, torch.tensor(-1.0), torch.tensor(2.0))

    return {
        "distributions.DiagNormal": diagonal,
        "distributions.BoxUniform": lambda features=2: zd.BoxUniform(
            -torch.ones(features), 2 * torch.ones(features)
        ),
        "distributions.Joint": (joint, (3,)),
        "distributions.Mixture": mixture,
        "distributions.TransformedUniform": (shifted, ()),
        "distributions.Truncated": (
            lambda: zd.Truncated(normal(0.0, 1.0), torch.tensor(-1.0), torch.tensor(2.0)),
            (),
        ),
        "distributions.Minimum": (lambda: zd.Minimum(uniform(0.0, 1.0), 3), ()),
        "distributions.Maximum": (lambda: zd.Maximum(normal(0.0, 1.0), 3), ()),
    }
