"""Constructions of all bijective transforms of Pyro, and of densities over some of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from flowref.adapters.common.object_components import Constructions

IMAGE = (4, 4, 4)


def library(name: str) -> Any:
    """A module of Pyro, untyped, since its annotations are partial."""
    return importlib.import_module(f"pyro.{name}")


def transforms() -> Constructions:
    """Name -> (builder, event shape); by default ``(features,)``."""
    return {**_networks(), **_autoregressive(), **_parametric(), **_fixed()}


def _networks() -> Constructions:
    pt = library("distributions.transforms")
    dense = library("nn").DenseNN

    def coupling(features: int = 4, hidden: int = 16) -> Any:
        return pt.affine_coupling(features, [hidden])

    def spline_coupling(features: int = 4, hidden: int = 16, bins: int = 8) -> Any:
        return pt.spline_coupling(features, hidden_dims=[hidden], count_bins=bins)

    def quadratic(features: int = 4, hidden: int = 16, bins: int = 8) -> Any:
        half = features // 2
        sizes = [(features - half) * count for count in (bins, bins, bins - 1)]
        return pt.SplineCoupling(
            features, half, dense(half, [hidden], sizes), bins, order="quadratic"
        )

    return {
        "AffineCoupling": coupling,
        "AffineCoupling[dim=-3]": (
            lambda hidden=16: pt.affine_coupling(IMAGE, [hidden], dim=-3),
            IMAGE,
        ),
        "SplineCoupling": spline_coupling,
        "SplineCoupling[quadratic]": quadratic,
    }


def _autoregressive() -> Constructions:
    pt = library("distributions.transforms")
    import torch

    masked = library("nn").AutoRegressiveNN

    def network(features: int, hidden: int, sizes: list[int]) -> Any:
        # In the order of coordinates, so that the Jacobian is triangular.
        return masked(features, [max(hidden, features)], sizes, permutation=torch.arange(features))

    def affine(stable: bool) -> Callable[..., Any]:
        return lambda features=4, hidden=16: pt.AffineAutoregressive(
            network(features, hidden, [1, 1]), stable=stable
        )

    def neural(activation: str) -> Callable[..., Any]:
        def build(features: int = 4, hidden: int = 16, width: int = 16) -> Any:
            net = network(features, hidden, [width] * 3)
            return pt.NeuralAutoregressive(net, hidden_units=width, activation=activation)

        return build

    def spline(order: str) -> Callable[..., Any]:
        def build(features: int = 4, hidden: int = 16, bins: int = 8) -> Any:
            sizes = [bins, bins, bins - 1] + ([bins] if order == "linear" else [])
            return pt.SplineAutoregressive(
                features, network(features, hidden, sizes), count_bins=bins, order=order
            )

        return build

    def polynomial(features: int = 4, hidden: int = 16, degree: int = 4, terms: int = 3) -> Any:
        net = network(features, hidden, [(degree + 1) * terms])
        return pt.Polynomial(net, input_dim=features, count_degree=degree, count_sum=terms)

    return {
        "AffineAutoregressive": affine(False),
        "AffineAutoregressive[stable]": affine(True),
        "BlockAutoregressive": lambda features=4: pt.block_autoregressive(features),
        "BlockAutoregressive[residual=normal]": lambda features=4: pt.block_autoregressive(
            features, residual="normal"
        ),
        "BlockAutoregressive[residual=gated]": lambda features=4: pt.block_autoregressive(
            features, residual="gated"
        ),
        "NeuralAutoregressive": neural("sigmoid"),
        "NeuralAutoregressive[ELU]": neural("ELU"),
        "NeuralAutoregressive[tanh]": neural("tanh"),
        "Polynomial": polynomial,
        "SplineAutoregressive[linear]": spline("linear"),
        "SplineAutoregressive[quadratic]": spline("quadratic"),
    }


def _parametric() -> Constructions:
    pt = library("distributions.transforms")

    def exponential(features: int = 4, iterations: int = 64) -> Any:
        return pt.matrix_exponential(features, iterations=iterations)

    return {
        "BatchNorm": lambda features=4: pt.BatchNorm(features),
        "GeneralizedChannelPermute": (
            lambda: pt.generalized_channel_permute(channels=IMAGE[0]),
            IMAGE,
        ),
        "Householder": lambda features=4, reflections=2: pt.householder(features, reflections),
        "MatrixExponential": lambda features=4: pt.matrix_exponential(features),
        "MatrixExponential[iterations=64]": exponential,
        "Planar": lambda features=4: pt.planar(features),
        "Radial": lambda features=4: pt.radial(features),
        "Sylvester": lambda features=4, reflections=2: pt.sylvester(features, reflections),
        "Spline[linear]": lambda features=4, bins=8: pt.spline(
            features, count_bins=bins, order="linear"
        ),
        "Spline[quadratic]": lambda features=4, bins=8: pt.spline(
            features, count_bins=bins, order="quadratic"
        ),
    }


def _fixed() -> Constructions:
    pt = library("distributions.transforms")
    import torch

    def cholesky(features: int = 4) -> Any:
        return pt.LowerCholeskyAffine(
            torch.randn(features), torch.tril(torch.rand(features, features)) + torch.eye(features)
        )

    return {
        "Permute": lambda features=4: pt.permute(features),
        "Permute[dim=-3]": (lambda: pt.permute(IMAGE, dim=-3), IMAGE),
        "LowerCholeskyAffine": cholesky,
        "OrderedTransform": lambda features=4: pt.OrderedTransform(),
        "DiscreteCosineTransform": lambda features=4: pt.DiscreteCosineTransform(),
        "DiscreteCosineTransform[smooth=1]": lambda features=4: pt.DiscreteCosineTransform(
            smooth=1.0
        ),
        "HaarTransform": lambda features=4: pt.HaarTransform(),
        "HaarTransform[flip]": lambda features=4: pt.HaarTransform(flip=True),
        # Singular at zero, as documented, and almost surely near it in many dimensions: not built
        # wide.
        "PositivePowerTransform": (
            lambda exponent=1.7: pt.PositivePowerTransform(torch.tensor(exponent)),
            (4,),
        ),
        "SoftplusTransform": lambda features=4: pt.SoftplusTransform(),
        "LeakyReLUTransform": lambda features=4: pt.leaky_relu(),
    }


def conditionals() -> dict[str, Callable[..., Any]]:
    """Name -> builder of a transform conditioned on a context."""
    pt = library("distributions.transforms")

    def coupling(features: int = 4, context: int = 2, hidden: int = 16) -> Any:
        return pt.conditional_affine_coupling(features, context, [hidden])

    def autoregressive(features: int = 4, context: int = 2, hidden: int = 16) -> Any:
        return pt.conditional_affine_autoregressive(features, context, [max(hidden, features)])

    def spline(features: int = 4, context: int = 2, hidden: int = 16, bins: int = 8) -> Any:
        return pt.conditional_spline(features, context, [hidden], count_bins=bins)

    def planar(features: int = 4, context: int = 2, hidden: int = 16) -> Any:
        return pt.conditional_planar(features, context, [hidden])

    return {
        "ConditionalAffineCoupling": coupling,
        "ConditionalAffineAutoregressive": autoregressive,
        "ConditionalSpline": spline,
        "ConditionalPlanar": planar,
    }


def densities() -> dict[str, Callable[..., Any]]:
    """Name -> builder of a density; names with exp have positive support."""
    dist = library("distributions")
    pt = library("distributions.transforms")
    import torch

    def over(features: int, *transforms: Any) -> Any:
        base = dist.Normal(torch.zeros(features), torch.ones(features)).to_event(1)
        return dist.TransformedDistribution(base, list(transforms))

    def affine(features: int = 4, hidden: int = 16) -> Any:
        first, last = (pt.affine_coupling(features, [hidden]) for _ in range(2))
        return over(features, first, pt.permute(features, torch.arange(features - 1, -1, -1)), last)

    def splines(features: int = 2, hidden: int = 16) -> Any:
        return over(
            features, pt.Spline(features), pt.spline_coupling(features, hidden_dims=[hidden])
        )

    def normalized(features: int = 4) -> Any:
        return over(
            features,
            pt.BatchNorm(features),
            pt.affine_autoregressive(features, [max(16, features)]),
        )

    return {
        "TransformedDistribution": affine,
        "TransformedDistribution[splines,features=2]": splines,
        "TransformedDistribution[Spline,features=1]": lambda features=1: over(
            features, pt.Spline(features)
        ),
        "TransformedDistribution[BatchNorm]": normalized,
        "TransformedDistribution[exp,features=1]": lambda features=1: over(
            features, pt.Spline(features), torch.distributions.ExpTransform()
        ),
    }
