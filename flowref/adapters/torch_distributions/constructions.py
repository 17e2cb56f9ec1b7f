"""Constructions of the bijective transforms of torch.distributions, of densities, and of the batch
normalizers of torch.nn in every rank and with every constructor option.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from flowref.adapters.common.object_components import Constructions
from flowref.model import Shape

# Rank of the layer -> shape of its events.
EVENTS: dict[int, Shape] = {1: (3,), 2: (3, 2, 2), 3: (2, 2, 1, 2)}
OPTIONS: dict[str, dict[str, Any]] = {
    "": {},
    "[affine=False]": {"affine": False},
    "[momentum=None]": {"momentum": None},
    "[track_running_stats=False]": {"track_running_stats": False},
    "[eps=1e-2,momentum=0.5]": {"eps": 1e-2, "momentum": 0.5},
}


def transforms() -> Constructions:
    """Name -> (builder, event shape), for bijective transforms; by default ``(features,)``."""
    import torch
    import torch.distributions.transforms as tt

    def vector(features: int = 4) -> Any:
        return tt.AffineTransform(torch.randn(features), torch.rand(features) + 0.5, event_dim=1)

    def mixed(features: int = 4) -> Any:
        first = tt.AffineTransform(torch.zeros(features), torch.full((features,), 2.0))
        return tt.ComposeTransform(
            [
                first,
                tt.AffineTransform(
                    torch.zeros(features), torch.full((features,), 3.0), event_dim=1
                ),
            ]
        )

    def cat(features: int = 4) -> Any:
        lengths = [features - features // 2, features // 2]
        return tt.CatTransform([tt.ExpTransform(), tt.TanhTransform()], dim=-1, lengths=lengths)

    def stack() -> Any:
        affine = tt.AffineTransform(0.0, 3.0)
        return tt.StackTransform(
            [tt.ExpTransform(), tt.TanhTransform(), affine, tt.SigmoidTransform()], dim=-1
        )

    normal = torch.distributions.Normal
    return {
        "ExpTransform": lambda features=4: tt.ExpTransform(),
        "PowerTransform": lambda features=4, exponent=1.7: tt.PowerTransform(
            torch.tensor(exponent)
        ),
        "SigmoidTransform": lambda features=4: tt.SigmoidTransform(),
        "SoftplusTransform": lambda features=4: tt.SoftplusTransform(),
        "TanhTransform": lambda features=4: tt.TanhTransform(),
        "AffineTransform": lambda features=4, loc=1.0, scale=-2.0: tt.AffineTransform(loc, scale),
        "AffineTransform[vec,event_dim=1]": vector,
        "AffineTransform[float,event_dim=1]": lambda features=4: tt.AffineTransform(
            0.0, 2.0, event_dim=1
        ),
        "AffineTransform[0-d tensor,event_dim=1]": lambda features=4: tt.AffineTransform(
            torch.tensor(0.0), torch.tensor(2.0), event_dim=1
        ),
        "CorrCholeskyTransform": (lambda: tt.CorrCholeskyTransform(), (6,)),
        "StickBreakingTransform": lambda features=4: tt.StickBreakingTransform(),
        "ReshapeTransform": (
            lambda: tt.ReshapeTransform(torch.Size((4,)), torch.Size((2, 2))),
            (4,),
        ),
        "IndependentTransform": lambda features=4: tt.IndependentTransform(tt.TanhTransform(), 1),
        "ComposeTransform": lambda features=4: tt.ComposeTransform(
            [tt.AffineTransform(0.0, 2.0), tt.SigmoidTransform()]
        ),
        "ComposeTransform[mixed event dims]": mixed,
        "CatTransform[dim=-1]": cat,
        "StackTransform[dim=-1]": (stack, (4,)),
        "CumulativeDistributionTransform": lambda features=4: tt.CumulativeDistributionTransform(
            normal(torch.tensor(0.0), torch.tensor(1.0))
        ),
    }


def univariate() -> Constructions:
    """Name -> builder, for univariate distributions with quantiles."""
    import torch.distributions as td

    def distribution(name: str, *values: float) -> Callable[..., Any]:
        return lambda: getattr(td, name)(*values)

    parameters: dict[str, tuple[float, ...]] = {
        "Cauchy": (0.3, 1.2),
        "ContinuousBernoulli": (0.3,),
        "Exponential": (1.5,),
        "GeneralizedPareto": (0.0, 1.3, 0.2),
        "HalfCauchy": (1.2,),
        "HalfNormal": (1.2,),
        "Kumaraswamy": (2.0, 3.0),
        "Laplace": (0.3, 1.2),
        "Normal": (0.3, 1.2),
        "Pareto": (1.0, 3.0),
        "Uniform": (-1.0, 2.0),
        "Weibull": (1.2, 1.5),
    }
    return {
        f"distributions.{name}": (distribution(name, *values), ())
        for name, values in parameters.items()
    }


def densities() -> Constructions:
    """Name -> (builder, event shape), for densities over transforms."""
    import torch
    import torch.distributions as td

    def over(*transforms: Any, features: int) -> Any:
        base = td.Independent(td.Normal(torch.zeros(features), torch.ones(features)), 1)
        return td.TransformedDistribution(base, list(transforms))

    def affine(features: int = 4) -> Any:
        first = td.AffineTransform(torch.randn(features), torch.rand(features) + 0.5, event_dim=1)
        return over(
            first,
            td.AffineTransform(torch.randn(features), -torch.rand(features) - 0.5),
            features=features,
        )

    return {
        "LogNormal": lambda features=1: over(
            td.AffineTransform(0.3, 0.7), td.ExpTransform(), features=features
        ),
        "LogitNormal": lambda features=2: over(td.SigmoidTransform(), features=features),
        "TransformedDistribution": affine,
        "TransformedDistribution[features=2]": lambda features=2: affine(features),
    }


def batch_norms() -> Constructions:
    """Batch normalizers: every rank by default, sequences for the first, and options on images."""
    builders: Constructions = {}
    for rank, shape in EVENTS.items():
        for suffix, options in OPTIONS.items():
            if rank == 2 or not suffix:
                build = partial(_batch_norm, rank, shape[0], options)
                builders[f"BatchNorm{rank}d{suffix}"] = build, shape
    builders["BatchNorm1d[sequence]"] = partial(_batch_norm, 1, 3, {}), (3, 4)
    return builders


def _batch_norm(rank: int, channels: int, options: dict[str, Any]) -> Any:
    import torch

    kinds: dict[int, Callable[..., Any]] = {
        1: torch.nn.BatchNorm1d,
        2: torch.nn.BatchNorm2d,
        3: torch.nn.BatchNorm3d,
    }
    return kinds[rank](channels, **options)
