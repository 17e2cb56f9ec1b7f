"""The base distributions of torchflows, which are distributions of torch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flowref.adapters.common.object_components import Constructions
from flowref.adapters.common.torch_transforms import distribution_facts
from flowref.model import Facts, Shape


def constructions() -> Constructions:
    """Name -> (builder, event shape); by default ``(features,)``."""
    import torch
    from torchflows.base_distributions import cauchy, concatenation, gaussian, mixture

    def diagonal(features: int = 4) -> Any:
        scales = 0.5 + torch.rand(features)
        return gaussian.DiagonalGaussian(torch.randn(features), scales, True, True)

    def dense(features: int = 3) -> Any:
        return gaussian.DenseGaussian(torch.randn(features), torch.eye(features) + 0.5)

    def mixed(features: int = 2, components: int = 3) -> Any:
        places, scales = (
            2 * torch.randn(components, features),
            0.5 + torch.rand(components, features),
        )
        weights = torch.arange(1.0, components + 1)
        return mixture.DiagonalGaussianMixture(places, scales, weights / weights.sum())

    def dense_mixed(features: int = 2, components: int = 3) -> Any:
        matrices = torch.stack([torch.eye(features) + 0.5 for _ in range(components)])
        return mixture.DenseGaussianMixture(2 * torch.randn(components, features), matrices)

    def joined() -> Any:
        parts = [diagonal(2), gaussian.StandardGaussian((1,))]
        return concatenation.ConcatenatedDistribution(parts)

    return {
        "StandardGaussian": lambda features=4: gaussian.StandardGaussian((features,)),
        "DiagonalGaussian": diagonal,
        "DenseGaussian": dense,
        "DiagonalGaussianMixture": mixed,
        "DenseGaussianMixture": dense_mixed,
        "ConcatenatedDistribution": (joined, (3,)),
        "ZeroCauchy": lambda features=2: cauchy.ZeroCauchy((features,), 1.5),
    }


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a base distribution."""
    return replace(distribution_facts(obj, event_shape), promises={})
