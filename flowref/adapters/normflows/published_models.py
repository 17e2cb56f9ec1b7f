"""normflows models of published size."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from flowref.adapters.common import published_models as sizes
from flowref.adapters.common.published_models import Model, SplineSetting


def models() -> dict[str, Model]:
    """Name -> model."""
    table = {
        f"nsf-c-{data}": Model(
            partial(_splines, sizes.COUPLED_SPLINES[data]),
            (sizes.COUPLED_SPLINES[data].features,),
            sizes.NSF,
        )
        for data in ("power", "miniboone", "bsds300")
    }
    table["maf-mnist"] = Model(_autoregressive, (sizes.MNIST.features,), sizes.MAF)
    table["residual-2d"] = Model(_residual, (2,), sizes.RESIDUAL)
    return table


def multi_scale_models() -> dict[str, Model]:
    """Name -> model with latents factored out level by level, flattened."""
    return {"glow-cifar10": Model(_glow, (math.prod(sizes.CIFAR),), sizes.GLOW)}


def _splines(size: SplineSetting) -> Any:
    import normflows as nf

    layers: list[Any] = []
    for index in range(size.steps):
        spline = nf.flows.CoupledRationalQuadraticSpline(
            size.features,
            size.blocks,
            size.hidden,
            num_bins=size.bins,
            tail_bound=sizes.TAIL_BOUND,
            reverse_mask=index % 2 == 1,
        )
        layers += [spline, nf.flows.LULinearPermute(size.features)]
    base = nf.distributions.DiagGaussian(size.features, trainable=False)
    return nf.NormalizingFlow(base, layers)


def _autoregressive() -> Any:
    import normflows as nf

    size = sizes.MNIST
    layers: list[Any] = []
    for _ in range(size.steps):
        # One feedforward block follows the first layer: two hidden layers.
        affine = nf.flows.MaskedAffineAutoregressive(
            size.features, size.hidden, num_blocks=1, use_residual_blocks=False
        )
        layers += [affine, nf.flows.Permute(size.features, "swap")]
    base = nf.distributions.DiagGaussian(size.features, trainable=False)
    return nf.NormalizingFlow(base, layers)


def _residual() -> Any:
    import normflows as nf

    steps, hidden = sizes.RESIDUAL_SIZE
    layers: list[Any] = []
    for _ in range(steps):
        net = nf.nets.LipschitzMLP(
            [2, hidden, hidden, hidden, 2], lipschitz_const=0.9, init_zeros=True
        )
        layers += [nf.flows.Residual(net, reduce_memory=True), nf.flows.ActNorm(2)]
    return nf.NormalizingFlow(nf.distributions.DiagGaussian(2, trainable=False), layers)


def _glow() -> Any:
    """The levels from the latent side, deepest first."""
    import normflows as nf

    levels, steps, hidden = sizes.GLOW_SIZE
    channels, height, width = sizes.CIFAR
    flows, bases, merges = [], [], []
    for index in range(levels):
        of_level = channels * 2 ** (levels + 1 - index)
        blocks = [nf.flows.GlowBlock(of_level, hidden) for _ in range(steps)]
        flows.append([*blocks, nf.flows.Squeeze()])
        scale = 2 ** (levels - index)
        leaving = of_level if index == 0 else of_level // 2
        bases.append(nf.distributions.DiagGaussian((leaving, height // scale, width // scale)))
        if index:
            merges.append(nf.flows.Merge())
    return nf.MultiscaleFlow(bases, flows, merges, class_cond=False)
