"""Constructions of all flows of normflows, and of models over some of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flowref.adapters.common.object_components import Constructions

IMAGE = (4, 4, 4)


def flows() -> Constructions:
    """Name -> (builder, event shape); by default ``(features,)``."""
    return {**_affine(), **_mixing(), **_splines(), **_residual()}


def _affine() -> Constructions:
    import normflows as nf
    import torch

    of = nf.flows

    def half(features: int, hidden: int, factor: int) -> Any:
        return nf.nets.MLP([(features + 1) // 2, hidden, factor * (features // 2)])

    def block(**fixed: Any) -> Callable[..., Any]:
        factor = 2 if fixed.get("scale", True) else 1

        def build(features: int = 4, hidden: int = 16) -> Any:
            return of.AffineCouplingBlock(half(features, hidden, factor), **fixed)

        return build

    def image(mode: str) -> Callable[..., Any]:
        inputs = IMAGE[0] if "checkerboard" in mode else IMAGE[0] // 2

        def build(hidden: int = 8) -> Any:
            net = nf.nets.ConvNet2d([inputs, hidden, 2 * inputs], [3, 3], init_zeros=False)
            return of.AffineCouplingBlock(net, split_mode=mode)

        return build

    def masked(features: int = 4, hidden: int = 16) -> Any:
        mask = torch.tensor([1.0 if index % 2 == 0 else 0.0 for index in range(features)])
        nets = [nf.nets.MLP([features, hidden, features]) for _ in range(2)]
        return of.MaskedAffineFlow(mask, nets[0], nets[1])

    def composite(features: int = 4, hidden: int = 16) -> Any:
        return of.Composite(
            [of.LULinearPermute(features), of.AffineCouplingBlock(half(features, hidden, 2))]
        )

    modes = ("channel", "channel_inv", "checkerboard", "checkerboard_inv")
    return {
        "AffineConstFlow": lambda features=4: of.AffineConstFlow((features,)),
        "AffineConstFlow[img]": (lambda: of.AffineConstFlow((IMAGE[0], 1, 1)), IMAGE),
        "ActNorm": lambda features=4: of.ActNorm((features,)),
        "ActNorm[img]": (lambda: of.ActNorm((IMAGE[0], 1, 1)), IMAGE),
        "BatchNorm": lambda features=4: of.BatchNorm(),
        "AffineCouplingBlock[exp]": block(),
        "AffineCouplingBlock[sigmoid]": block(scale_map="sigmoid"),
        "AffineCouplingBlock[sigmoid_inv]": block(scale_map="sigmoid_inv"),
        "AffineCouplingBlock[noscale]": block(scale=False),
        **{f"AffineCouplingBlock[img,{mode}]": (image(mode), IMAGE) for mode in modes},
        "MaskedAffineFlow": masked,
        "MaskedAffineAutoregressive": lambda features=4, hidden=16: of.MaskedAffineAutoregressive(
            features, hidden
        ),
        "CCAffineConst[ctx]": lambda features=4, classes=3: of.CCAffineConst((features,), classes),
        "GlowBlock": (lambda hidden=8: of.GlowBlock(IMAGE[0], hidden), IMAGE),
        "GlowBlock[checkerboard]": (
            lambda hidden=8: of.GlowBlock(IMAGE[0], hidden, split_mode="checkerboard"),
            IMAGE,
        ),
        "Composite": composite,
    }


def _mixing() -> Constructions:
    import normflows as nf

    of = nf.flows

    def permute(mode: str) -> Callable[..., Any]:
        return lambda features=4: of.Permute(features, mode)

    def convolution(lu: bool) -> Callable[..., Any]:
        return lambda: of.Invertible1x1Conv(IMAGE[0], lu)

    def affine(lu: bool) -> Callable[..., Any]:
        return lambda features=4: of.InvertibleAffine(features, lu)

    return {
        **{f"Permute[{mode}]": permute(mode) for mode in ("shuffle", "swap")},
        **{f"Invertible1x1Conv[lu={lu}]": (convolution(lu), IMAGE) for lu in (False, True)},
        **{f"InvertibleAffine[lu={lu}]": affine(lu) for lu in (False, True)},
        "LULinearPermute": lambda features=4: of.LULinearPermute(features),
        "Reverse(InvertibleAffine)": lambda features=4: of.Reverse(of.InvertibleAffine(features)),
        "Squeeze": (lambda: of.Squeeze(), IMAGE),
        "transforms.Logit": lambda features=4, alpha=0.05: nf.transforms.Logit(alpha),
        "transforms.Shift": lambda features=4, shift=-0.5: nf.transforms.Shift(shift),
    }


def _splines() -> Constructions:
    import normflows as nf

    of = nf.flows

    def coupled(**fixed: Any) -> Callable[..., Any]:
        return lambda features=4, hidden=16: of.CoupledRationalQuadraticSpline(
            features, 1, hidden, **fixed
        )

    def circular(kind: str, circle: list[int]) -> Callable[..., Any]:
        def build(features: int = 4, hidden: int = 16) -> Any:
            return getattr(of, f"Circular{kind}RationalQuadraticSpline")(
                features, 1, hidden, circle, tail_bound=math.pi
            )

        return build

    # Without circular coordinates the documented linear tails apply.
    return {
        "CoupledRationalQuadraticSpline": coupled(),
        "CoupledRationalQuadraticSpline[tails=None]": coupled(tails=None),
        "CoupledRationalQuadraticSpline[tails=circular]": coupled(
            tails="circular", tail_bound=math.pi
        ),
        "AutoregressiveRationalQuadraticSpline": lambda features=4, hidden=16: (
            of.AutoregressiveRationalQuadraticSpline(features, 1, hidden)
        ),
        "CircularCoupledRationalQuadraticSpline": circular("Coupled", [0, 1]),
        "CircularCoupledRationalQuadraticSpline[ind_circ=none]": circular("Coupled", []),
        "CircularAutoregressiveRationalQuadraticSpline": circular("Autoregressive", [0, 1]),
        "PeriodicShift": lambda features=4, shift=1.0: of.PeriodicShift(
            [0, 1], bound=math.pi, shift=shift
        ),
        "PeriodicWrap": lambda features=4: of.PeriodicWrap([0, 1], bound=math.pi),
    }


def _residual() -> Constructions:
    import normflows as nf

    of = nf.flows

    def residual(**fixed: Any) -> Callable[..., Any]:
        def build(hidden: int = 16) -> Any:
            net = nf.nets.LipschitzMLP([2, hidden, 2], lipschitz_const=0.8, max_lipschitz_iter=20)
            return of.Residual(net, **fixed)

        return build

    return {
        "Planar[tanh]": lambda features=4: of.Planar((features,)),
        "Planar[leaky_relu]": lambda features=4: of.Planar((features,), act="leaky_relu"),
        "Radial": lambda features=4: of.Radial((features,)),
        "Residual[brute_force]": (residual(brute_force=True), (2,)),
        "Residual[brute_force,reverse=False]": (residual(brute_force=True, reverse=False), (2,)),
        "Residual[exact_trace]": (residual(exact_trace=True, reduce_memory=False), (2,)),
    }


def models() -> Constructions:
    """Name -> builder, for densities without a context."""
    return {
        "NormalizingFlow": _real_nvp,
        "NormalizingFlow[features=2]": lambda features=2, hidden=16: _real_nvp(features, hidden),
        "NormalizingFlow[NSF]": _spline_flow,
        "NormalizingFlow[NSF,features=2]": lambda features=2, hidden=16: _spline_flow(
            features, hidden
        ),
    }


def conditional_models() -> Constructions:
    """Name -> builder, for densities with a context."""
    return {"ConditionalNormalizingFlow": _conditional_flow}


def multi_scale_models() -> Constructions:
    """Name -> builder, for densities whose latents are factored out level by level."""
    return {"MultiscaleFlow": _multi_scale}


def _real_nvp(features: int = 4, hidden: int = 16) -> Any:
    """Two affine couplings with a swap and a constant scaling, on a diagonal Gaussian."""
    import normflows as nf

    layers: list[Any] = []
    for _ in range(2):
        net = nf.nets.MLP([(features + 1) // 2, hidden, 2 * (features // 2)])
        layers += [nf.flows.AffineCouplingBlock(net), nf.flows.Permute(features, "swap")]
    layers.append(nf.flows.AffineConstFlow((features,)))
    return nf.NormalizingFlow(nf.distributions.DiagGaussian(features), layers)


def _spline_flow(features: int = 4, hidden: int = 16) -> Any:
    """An autoregressive and a coupling spline with linear layers, on a diagonal Gaussian."""
    import normflows as nf

    layers = [
        nf.flows.AutoregressiveRationalQuadraticSpline(features, 1, hidden),
        nf.flows.LULinearPermute(features),
        nf.flows.CoupledRationalQuadraticSpline(features, 1, hidden),
        nf.flows.LULinearPermute(features),
    ]
    return nf.NormalizingFlow(nf.distributions.DiagGaussian(features, trainable=False), layers)


def _conditional_flow(features: int = 4, hidden: int = 16, context_features: int = 3) -> Any:
    """An autoregressive affine layer and a spline layer, both with context."""
    import normflows as nf

    layers = [
        nf.flows.MaskedAffineAutoregressive(
            features, hidden, context_features=context_features, num_blocks=1
        ),
        nf.flows.LULinearPermute(features),
        nf.flows.CoupledRationalQuadraticSpline(
            features, 1, hidden, num_context_channels=context_features
        ),
    ]
    return nf.ConditionalNormalizingFlow(
        nf.distributions.DiagGaussian(features, trainable=False), layers
    )


def _multi_scale(hidden: int = 8) -> Any:
    """Glow in two levels, with a diagonal Gaussian at each."""
    import normflows as nf

    flows: list[list[Any]] = [
        [nf.flows.GlowBlock(8, hidden), nf.flows.Squeeze()],
        [nf.flows.GlowBlock(4, hidden), nf.flows.Squeeze()],
    ]
    bases = [nf.distributions.DiagGaussian((8, 1, 1)), nf.distributions.DiagGaussian((2, 2, 2))]
    return nf.MultiscaleFlow(bases, flows, [nf.flows.Merge()], class_cond=False)


def promised(name: str) -> dict[str, bool]:
    """Promises implied by a construction's options: the mask of an image, or an initial identity."""
    if name.startswith("AffineCouplingBlock[img,"):
        return {"checkerboard-mask" if "checkerboard" in name else "channel-mask": True}
    return {}
