"""Constructions of all classes shared by nflows and its copies, from the named package."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from flowref.adapters.common.nflows_family.facts import describe
from flowref.adapters.common.object_components import Constructions, components_of
from flowref.model import Component, Dialect

IMAGE = (4, 4, 4)
KINDS = ("Linear", "Quadratic", "Cubic", "RationalQuadratic")


def components(
    package: str, transform: Dialect, composite: Dialect, prefix: str = ""
) -> dict[str, Component]:
    """The transforms of ``package`` by name with a prefix, in the dialects of transforms and composites."""
    named = {prefix + name: construction for name, construction in transforms(package).items()}
    composites = f"{prefix}Composite"
    return components_of(
        named, lambda name: composite if name.startswith(composites) else transform, describe
    )


def transforms(package: str) -> Constructions:
    """Name -> (builder, event shape) of the transforms of ``package``; None stands for ``(features,)``."""
    return {
        **_elementwise(package),
        **_linear(package),
        **_couplings(package),
        **_autoregressive(package),
    }


def _mask(features: int) -> Any:
    import torch

    return torch.tensor([1 if index % 2 == 0 else -1 for index in range(features)])


def _net(package: str, hidden: int) -> Callable[[int, int], Any]:
    nets = import_module(f"{package}.nn.nets")
    return lambda inputs, outputs: nets.ResidualNet(
        inputs, outputs, hidden_features=hidden, num_blocks=1
    )


def _convolution(package: str, hidden: int) -> Callable[[int, int], Any]:
    nets = import_module(f"{package}.nn.nets")
    return lambda inputs, outputs: nets.ConvResidualNet(
        inputs, outputs, hidden_channels=hidden, num_blocks=1
    )


def _elementwise(package: str) -> Constructions:
    import torch

    of = import_module(f"{package}.transforms")
    curves = import_module(f"{package}.transforms.nonlinearities")

    def affine(features: int = 4) -> Any:
        return of.PointwiseAffineTransform(torch.randn(features), torch.rand(features) + 0.5)

    def composite_cdf(features: int = 4) -> Any:
        return of.CompositeCDFTransform(of.Sigmoid(), of.PiecewiseRationalQuadraticCDF([features]))

    def multiscale(channels: int = IMAGE[0]) -> Any:
        whole = of.MultiscaleCompositeTransform(2)
        rest = whole.add_transform(of.ActNorm(channels), (channels, *IMAGE[1:]))
        whole.add_transform(of.ActNorm(channels // 2), rest)
        return whole

    def cdf(kind: str, **fixed: Any) -> Callable[..., Any]:
        def build(features: int = 4, num_bins: int = 10) -> Any:
            return getattr(of, f"Piecewise{kind}CDF")([features], num_bins=num_bins, **fixed)

        return build

    builders: Constructions = {
        "BatchNorm": lambda features=4: of.BatchNorm(features),
        "ActNorm": lambda features=4: of.ActNorm(features),
        "ActNorm[img]": (lambda: of.ActNorm(IMAGE[0]), IMAGE),
        "PointwiseAffineTransform": affine,
        "PointwiseAffineTransform[scalar]": lambda features=4: of.PointwiseAffineTransform(
            1.0, 2.0
        ),
        "IdentityTransform": lambda features=4: of.IdentityTransform(),
        "Tanh": lambda features=4: of.Tanh(),
        "LogTanh": lambda features=4, cut_point=1: of.LogTanh(cut_point),
        "LeakyReLU": lambda features=4, negative_slope=1e-2: of.LeakyReLU(negative_slope),
        "Sigmoid": lambda features=4: of.Sigmoid(),
        "Logit": lambda features=4: of.Logit(),
        "CauchyCDF": lambda features=4: curves.CauchyCDF(),
        "GatedLinearUnit[ctx]": lambda features=4: of.GatedLinearUnit(),
        "CompositeCDFTransform": composite_cdf,
        "SqueezeTransform": (lambda: of.SqueezeTransform(2), IMAGE),
        "MultiscaleCompositeTransform": (multiscale, IMAGE),
    }
    for kind in KINDS:
        builders[f"Piecewise{kind}CDF"] = cdf(kind)
        builders[f"Piecewise{kind}CDF[tails=linear]"] = cdf(kind, tails="linear", tail_bound=1.5)
    return builders


def _linear(package: str) -> Constructions:
    import torch

    of = import_module(f"{package}.transforms")

    def composite(features: int = 4, hidden: int = 16) -> Any:
        coupling = of.AffineCouplingTransform(_mask(features), _net(package, hidden))
        return of.CompositeTransform([of.LULinear(features), coupling])

    def permutation(features: int = 4) -> Any:
        order = [2, 0, 3, 1] if features == 4 else [*range(1, features), 0]
        return of.Permutation(torch.tensor(order))

    return {
        "NaiveLinear": lambda features=4: of.NaiveLinear(features),
        "LULinear": lambda features=4: of.LULinear(features),
        "LULinear[cache]": lambda features=4: of.LULinear(features, using_cache=True),
        "QRLinear": lambda features=4, reflections=3: of.QRLinear(features, reflections),
        "SVDLinear": lambda features=4, reflections=4: of.SVDLinear(features, reflections),
        "HouseholderSequence": lambda features=4, reflections=3: of.HouseholderSequence(
            features, reflections
        ),
        "OneByOneConvolution": (lambda: of.OneByOneConvolution(IMAGE[0]), IMAGE),
        "Permutation": permutation,
        "RandomPermutation": lambda features=4: of.RandomPermutation(features),
        "ReversePermutation": lambda features=4: of.ReversePermutation(features),
        "InverseTransform(LULinear)": lambda features=4: of.InverseTransform(of.LULinear(features)),
        "CompositeTransform": composite,
    }


def _couplings(package: str) -> Constructions:
    of = import_module(f"{package}.transforms")

    def coupling(name: str, **fixed: Any) -> Callable[..., Any]:
        def build(features: int = 4, hidden: int = 16) -> Any:
            return getattr(of, name)(_mask(features), _net(package, hidden), **fixed)

        return build

    def image(hidden: int = 8) -> Any:
        return of.AffineCouplingTransform(_mask(IMAGE[0]), _convolution(package, hidden))

    builders: Constructions = {
        "AdditiveCouplingTransform": coupling("AdditiveCouplingTransform"),
        "AffineCouplingTransform": coupling("AffineCouplingTransform"),
        "AffineCouplingTransform[img]": (image, IMAGE),
    }
    tails: dict[str, Any] = {"num_bins": 6, "tails": "linear", "tail_bound": 2.0}
    for kind in KINDS:
        name = f"Piecewise{kind}CouplingTransform"
        builders[name] = coupling(name, num_bins=6)
        builders[f"{name}[tails=linear]"] = coupling(name, **tails)
        builders[f"{name}[tails,uncond]"] = coupling(
            name, **tails, apply_unconditional_transform=True
        )
    return builders


def _autoregressive(package: str) -> Constructions:
    of = import_module(f"{package}.transforms")

    def binned(kind: str) -> Callable[..., Any]:
        def build(features: int = 4, hidden: int = 16, num_bins: int = 6) -> Any:
            return getattr(of, f"MaskedPiecewise{kind}AutoregressiveTransform")(
                num_bins, features, hidden
            )

        return build

    def tailed(kind: str, **fixed: Any) -> Callable[..., Any]:
        def build(features: int = 4, hidden: int = 16) -> Any:
            return getattr(of, f"MaskedPiecewise{kind}AutoregressiveTransform")(
                features, hidden, **fixed
            )

        return build

    rational = "MaskedPiecewiseRationalQuadraticAutoregressiveTransform"
    return {
        "MaskedAffineAutoregressiveTransform": lambda features=4, hidden=16: (
            of.MaskedAffineAutoregressiveTransform(features, hidden)
        ),
        "MaskedPiecewiseLinearAutoregressiveTransform": binned("Linear"),
        "MaskedPiecewiseCubicAutoregressiveTransform": binned("Cubic"),
        "MaskedPiecewiseQuadraticAutoregressiveTransform": tailed(
            "Quadratic", tails="linear", tail_bound=2.0
        ),
        rational: tailed("RationalQuadratic", tails="linear", tail_bound=2.0),
        f"{rational}[None]": tailed("RationalQuadratic"),
    }
