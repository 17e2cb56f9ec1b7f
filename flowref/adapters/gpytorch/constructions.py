"""Priors of GPyTorch."""

from __future__ import annotations

from typing import Any

from flowref.adapters.common.object_components import Constructions


def priors() -> Constructions:
    """Name -> (builder, event shape)."""
    import torch
    from gpytorch import priors

    def normals() -> Any:
        matrix = torch.tensor([[1.0, 0.3], [0.3, 0.5]])
        return priors.MultivariateNormalPrior(torch.tensor([0.0, 1.0]), matrix)

    def box() -> Any:
        return priors.SmoothedBoxPrior(torch.zeros(2), torch.tensor([2.0, 1.0]), sigma=0.1)

    return {
        "NormalPrior": (lambda: priors.NormalPrior(0.3, 1.2), ()),
        "HalfNormalPrior": (lambda: priors.HalfNormalPrior(0.5), ()),
        "HalfCauchyPrior": (lambda: priors.HalfCauchyPrior(0.5), ()),
        "LogNormalPrior": (lambda: priors.LogNormalPrior(0.3, 0.7), ()),
        "UniformPrior": (lambda: priors.UniformPrior(-1.0, 2.0), ()),
        "GammaPrior": (lambda: priors.GammaPrior(2.0, 1.5), ()),
        "MultivariateNormalPrior": (normals, (2,)),
        "SmoothedBoxPrior": (box, (2,)),
        "HorseshoePrior": (lambda: priors.HorseshoePrior(0.3), ()),
    }
