"""Constructions of all finite bijections of torchflows, of its continuous ones, and of flows over some
architectures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowref.adapters.common.object_components import Constructions
from flowref.model import Shape

IMAGE = (2, 4, 4)

LAYERS = (
    "ElementwiseAffine", "ElementwiseInverseAffine", "ElementwiseScale", "ElementwiseShift", "ElementwiseRQSpline",
    "AffineCoupling", "InverseAffineCoupling", "ShiftCoupling", "LRSCoupling", "RQSCoupling",
    "DeepSigmoidalCoupling", "DenseSigmoidalCoupling", "DeepDenseSigmoidalCoupling",
    "LinearAffineCoupling", "LinearRQSCoupling", "LinearLRSCoupling", "LinearShiftCoupling",
    "AffineForwardMaskedAutoregressive", "RQSForwardMaskedAutoregressive", "LRSForwardMaskedAutoregressive",
    "AffineInverseMaskedAutoregressive", "RQSInverseMaskedAutoregressive", "LRSInverseMaskedAutoregressive",
    "DeepSigmoidalInverseMaskedAutoregressive", "DeepSigmoidalForwardMaskedAutoregressive",
    "DenseSigmoidalForwardMaskedAutoregressive", "DeepDenseSigmoidalForwardMaskedAutoregressive",
    "UMNNMaskedAutoregressive", "ActNorm",
)  # fmt: skip
# A round trip takes tens of thousands of operations per feature: nested bisections.
SLOW = (
    "DenseSigmoidalForwardMaskedAutoregressive",
    "DeepDenseSigmoidalForwardMaskedAutoregressive",
)
MATRICES = (
    "IdentityMatrix", "LUMatrix", "QRMatrix", "HouseholderProductMatrix", "ReversePermutationMatrix",
    "RandomPermutationMatrix", "UpperTriangularInvertibleMatrix", "LowerTriangularInvertibleMatrix",
)  # fmt: skip
ARCHITECTURES = (
    "NICE", "RealNVP", "InverseRealNVP", "MAF", "IAF", "CouplingRQNSF", "MaskedAutoregressiveRQNSF", "CouplingLRS",
    "MaskedAutoregressiveLRS", "CouplingDeepSF", "UMNNMAF",
)  # fmt: skip


def bijections() -> Constructions:
    """Name -> (builder, event shape); by default ``(features,)``."""
    return {**_layers(), **_residual(), **_continuous(), **_multiscale(), **_architectures()}


def flows() -> dict[str, Callable[..., Any]]:
    """Name -> builder, for flows on a standard Gaussian."""

    def flow(name: str, width: int, **fixed: Any) -> Callable[..., Any]:
        def build(features: int = width, layers: int = 2) -> Any:
            from torchflows.bijections.finite.autoregressive import architectures
            from torchflows.flows import Flow

            return Flow(getattr(architectures, name)((features,), n_layers=layers, **fixed))

        return build

    return {
        "Flow[RealNVP]": flow("RealNVP", 4),
        "Flow[RealNVP,features=2]": flow("RealNVP", 2),
        "Flow[RealNVP,ctx]": flow("RealNVP", 4, context_shape=(3,)),
        "Flow[MAF]": flow("MAF", 4),
        "Flow[CouplingRQNSF]": flow("CouplingRQNSF", 4),
        "Flow[CouplingRQNSF,features=2]": flow("CouplingRQNSF", 2),
    }


def _vector(kind: Any, width: int = 4, **fixed: Any) -> Callable[..., Any]:
    def build(features: int = width) -> Any:
        return kind((features,), **fixed)

    return build


def _layers() -> Constructions:
    from torchflows.bijections.finite import matrix
    from torchflows.bijections.finite.autoregressive import layers

    return {
        **{name: _vector(getattr(layers, name), 2 if name in SLOW else 4) for name in LAYERS},
        **{name: _vector(getattr(matrix, name)) for name in MATRICES},
    }


def _residual() -> Constructions:
    from torchflows.bijections.finite.residual import iterative, planar, radial, sylvester

    def square(kind: Any) -> Callable[..., Any]:
        return lambda features=4: kind((features,), m=features)

    return {
        "residual.Planar": _vector(planar.Planar),
        "residual.Radial": _vector(radial.Radial),
        "residual.IdentitySylvester": _vector(sylvester.IdentitySylvester),
        "residual.HouseholderSylvester[m=D]": square(sylvester.HouseholderSylvester),
        "residual.PermutationSylvester[m=D]": square(sylvester.PermutationSylvester),
        "residual.InvertibleResNetBlock": _vector(iterative.InvertibleResNetBlock),
        "residual.ResFlowBlock": _vector(iterative.ResFlowBlock),
    }


def _continuous() -> Constructions:
    """Continuous bijections with estimated traces, with their default solver, one step of the classical
    Runge-Kutta method. With noise drawn at each evaluation, adaptive solvers do not terminate; the one with
    Euler's method is the same code in 150 steps.
    """
    from torchflows.bijections.continuous import ffjord, rnode

    return {
        "continuous.FFJORD": _vector(ffjord.FFJORD),
        "continuous.RNODE": _vector(rnode.RNODE),
    }


def _multiscale() -> Constructions:
    from torchflows.bijections.finite.autoregressive.transformers.linear.affine import Affine
    from torchflows.bijections.finite.multiscale import base

    def image(kind: Any, **fixed: Any) -> tuple[Callable[..., Any], Shape]:
        return lambda: kind(IMAGE, **fixed), IMAGE

    return {
        "multiscale.Squeeze": image(base.Squeeze),
        "multiscale.CheckerboardCoupling": image(
            base.CheckerboardCoupling, transformer_class=Affine
        ),
        "multiscale.ChannelWiseCoupling": image(base.ChannelWiseCoupling, transformer_class=Affine),
        "multiscale.Invertible1x1ConvolutionalCoupling": image(
            base.Invertible1x1ConvolutionalCoupling
        ),
        "multiscale.NormalizedCheckerboardCoupling": image(
            base.NormalizedCheckerboardCoupling, transformer_class=Affine
        ),
    }


def _architectures() -> Constructions:
    from torchflows.bijections.finite.autoregressive import architectures

    def stack(kind: Any) -> Callable[..., Any]:
        def build(features: int = 4, layers: int = 2) -> Any:
            return kind((features,), n_layers=layers)

        return build

    return {f"arch.{name}": stack(getattr(architectures, name)) for name in ARCHITECTURES}


def promised(name: str) -> dict[str, bool]:
    r"""Promises implied by a construction's name: the mask of an image, that a stack transforms every
    entry, or that it is not for many features.

    Householder's Sylvester bijection requires $m = D$, and the graph of its $D$ reflections of a $D \times
    D$ matrix takes more than a gigabyte for several hundred features. The permuted one computes its log-det
    at that size by the same code.
    """
    masks = {
        "multiscale.CheckerboardCoupling": "checkerboard-mask",
        "multiscale.ChannelWiseCoupling": "channel-mask",
    }
    stacks = (
        "arch.NICE",
        "arch.RealNVP",
        "arch.InverseRealNVP",
        "arch.CouplingRQNSF",
        "arch.CouplingLRS",
    )
    if name == "residual.HouseholderSylvester[m=D]":
        return {"wide": False}
    return (
        {masks[name]: True} if name in masks else {"transforms-all": True} if name in stacks else {}
    )
