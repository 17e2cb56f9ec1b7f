"""Constructions of all modules of FrEIA, and of networks of them."""

from __future__ import annotations

import contextlib
import functools
import io
from collections.abc import Callable
from typing import Any

from flowref.adapters.common.object_components import Constructions

IMAGE = (4, 4, 4)


def quiet(build: Callable[..., Any]) -> Callable[..., Any]:
    """A builder that prints nothing, and restores numpy's random state, from which permutations are drawn."""

    @functools.wraps(build)
    def built(**options: Any) -> Any:
        import numpy as np

        state = np.random.get_state()
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                return build(**options)
        finally:
            np.random.set_state(state)

    return built


def dense_subnetwork(hidden: int) -> Callable[[int, int], Any]:
    from torch import nn

    return lambda inputs, outputs: nn.Sequential(
        nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, outputs)
    )


def convolution(inputs: int, outputs: int) -> Any:
    """A subnetwork for images."""
    from torch import nn

    return nn.Conv2d(inputs, outputs, 3, padding=1)


def modules() -> Constructions:
    """Name -> (builder, event shape); by default ``(features,)``."""
    every = {**_couplings(), **_blocks(), **_pointwise(), **_linear(), **_reshaping()}
    return {
        name: (quiet(one[0]), one[1]) if isinstance(one, tuple) else quiet(one)
        for name, one in every.items()
    }


def _couplings() -> Constructions:
    import FrEIA.modules as fm

    def vector(kind: Any) -> Callable[..., Any]:
        return lambda features=4, hidden=16: kind(
            [(features,)], subnet_constructor=dense_subnetwork(hidden)
        )

    def conditioned(kind: Any) -> Callable[..., Any]:
        def build(features: int = 4, context: int = 2, hidden: int = 16) -> Any:
            return kind(
                [(features,)], dims_c=[(context,)], subnet_constructor=dense_subnetwork(hidden)
            )

        return build

    def image(kind: Any) -> Callable[..., Any]:
        return lambda: kind([IMAGE], subnet_constructor=convolution)

    names = (
        "NICECouplingBlock",
        "RNVPCouplingBlock",
        "GLOWCouplingBlock",
        "GINCouplingBlock",
        "AffineCouplingOneSided",
    )
    return {
        **{name: vector(getattr(fm, name)) for name in names},
        **{f"{name}[img]": (image(getattr(fm, name)), IMAGE) for name in names},
        "GLOWCouplingBlock[ctx]": conditioned(fm.GLOWCouplingBlock),
        "ConditionalAffineTransform[ctx]": conditioned(fm.ConditionalAffineTransform),
    }


def _blocks() -> Constructions:
    import FrEIA.modules as fm

    def block(**fixed: Any) -> Callable[..., Any]:
        return lambda features=4, hidden=16: fm.AllInOneBlock(
            [(features,)], subnet_constructor=dense_subnetwork(hidden), **fixed
        )

    def residual(features: int = 4, samples: int = 2) -> Any:
        layer = fm.IResNetLayer([(features,)], hutchinson_samples=samples)
        # Users must do this after each gradient step; otherwise the layer may not be invertible.
        for _ in range(20):
            layer.lipschitz_correction()
        return layer

    variants: tuple[dict[str, Any], ...] = (
        {},
        {"gin_block": True},
        {"permute_soft": True},
        {"learned_householder_permutation": 2},
        {"reverse_permutation": True},
        {"global_affine_type": "SIGMOID"},
        {"global_affine_type": "EXP"},
    )
    return {
        **{f"AllInOneBlock{fixed or ''}": block(**fixed) for fixed in variants},
        "AllInOneBlock[img]": (
            lambda: fm.AllInOneBlock([IMAGE], subnet_constructor=convolution),
            IMAGE,
        ),
        "IResNetLayer": residual,
    }


def _pointwise() -> Constructions:
    import FrEIA.modules as fm

    return {
        "ActNorm": lambda features=4: fm.ActNorm([(features,)]),
        "ActNorm[img]": (lambda: fm.ActNorm([IMAGE]), IMAGE),
        "InvAutoAct": lambda features=4: fm.InvAutoAct([(features,)]),
        "InvAutoActTwoSided": lambda features=4: fm.InvAutoActTwoSided([(features,)]),
        "LearnedElementwiseScaling": lambda features=4: fm.LearnedElementwiseScaling([(features,)]),
        "InvertibleSigmoid": lambda features=4: fm.InvertibleSigmoid([(features,)]),
        "InvertibleSigmoid[img]": (lambda: fm.InvertibleSigmoid([IMAGE]), IMAGE),
    }


def _linear() -> Constructions:
    import FrEIA.modules as fm
    import torch

    def reflections(count: int) -> Callable[..., Any]:
        return lambda features=4: fm.HouseholderPerm([(features,)], n_reflections=count)

    def matrix(size: int) -> Any:
        return torch.randn(size, size) + 2 * torch.eye(size)

    def fixed(features: int = 4) -> Any:
        return fm.FixedLinearTransform([(features,)], M=matrix(features), b=torch.randn(features))

    return {
        "HouseholderPerm": reflections(2),
        "HouseholderPerm[3]": reflections(3),
        "HouseholderPerm[5]": reflections(5),
        "OrthogonalTransform": lambda features=4: fm.OrthogonalTransform([(features,)]),
        "PermuteRandom": lambda features=4: fm.PermuteRandom([(features,)]),
        "FixedLinearTransform": fixed,
        "Fixed1x1Conv": (lambda: fm.Fixed1x1Conv([IMAGE], M=matrix(IMAGE[0])), IMAGE),
        "InvAutoFC": lambda features=4: fm.InvAutoFC([(features,)]),
    }


def _reshaping() -> Constructions:
    import FrEIA.modules as fm

    def irevnet(kind: Any, legacy: bool) -> Callable[..., Any]:
        return lambda: kind([IMAGE], legacy_backend=legacy)

    def haar(kind: Any, ordered: bool) -> Callable[..., Any]:
        return lambda rebalance=0.7: kind([IMAGE], order_by_wavelet=ordered, rebalance=rebalance)

    builders: Constructions = {
        "Flatten": (lambda: fm.Flatten([IMAGE]), IMAGE),
        "Reshape": (lambda: fm.Reshape([IMAGE], output_dims=(8, 8)), IMAGE),
    }
    for flag in (False, True):
        builders[f"IRevNetDownsampling[legacy={flag}]"] = (
            irevnet(fm.IRevNetDownsampling, flag),
            IMAGE,
        )
        builders[f"IRevNetUpsampling[legacy={flag}]"] = (irevnet(fm.IRevNetUpsampling, flag), IMAGE)
        builders[f"HaarDownsampling[by_wavelet={flag}]"] = (haar(fm.HaarDownsampling, flag), IMAGE)
        builders[f"HaarUpsampling[by_wavelet={flag}]"] = (haar(fm.HaarUpsampling, flag), IMAGE)
    return builders


def networks() -> dict[str, Callable[..., Any]]:
    """Name -> builder of a network of modules."""
    import FrEIA.framework as ff
    import FrEIA.modules as fm

    def sequence(features: int = 4, hidden: int = 16) -> Any:
        network = ff.SequenceINN(features)
        network.append(fm.AllInOneBlock, subnet_constructor=dense_subnetwork(hidden))
        network.append(fm.ActNorm)
        return network

    def graph(features: int = 4, hidden: int = 16) -> Any:
        start = ff.InputNode(features, name="input")
        first = ff.Node(
            start,
            fm.GLOWCouplingBlock,
            {"subnet_constructor": dense_subnetwork(hidden)},
            name="coupling",
        )
        second = ff.Node(first, fm.PermuteRandom, {}, name="permutation")
        third = ff.Node(
            second,
            fm.RNVPCouplingBlock,
            {"subnet_constructor": dense_subnetwork(hidden)},
            name="second coupling",
        )
        return ff.GraphINN([start, first, second, third, ff.OutputNode(third, name="output")])

    return {
        "SequenceINN": quiet(sequence),
        "GraphINN": quiet(graph),
        "GraphINN[features=2]": quiet(lambda features=2, hidden=16: graph(features, hidden)),
    }
