"""nflows models of published size: the library of the authors of neural spline flows."""

from __future__ import annotations

from functools import partial
from typing import Any

from flowref.adapters.common import published_models as sizes
from flowref.adapters.common.published_models import DenseSetting, Model, SplineSetting


def models() -> dict[str, Model]:
    """Name -> model."""
    coupled, autoregressive = sizes.COUPLED_SPLINES, sizes.AUTOREGRESSIVE_SPLINES
    table = {
        f"nsf-c-{data}": Model(partial(_coupled, size), (size.features,), sizes.NSF)
        for data, size in coupled.items()
    }
    for data, size in autoregressive.items():
        build = partial(_autoregressive, size)
        table[f"nsf-ar-{data}"] = Model(build, (size.features,), sizes.NSF)
    for data, dense in sizes.DENSE.items():
        table[f"maf-{data}"] = Model(partial(_affine, dense), (dense.features,), sizes.MAF)
    event = (sizes.MNIST.features,)
    table["real-nvp-mnist"] = Model(partial(_real_nvp, sizes.MNIST), event, sizes.MAF)
    return table


def _linear(features: int) -> list[Any]:
    from nflows.transforms import LULinear, RandomPermutation

    return [RandomPermutation(features), LULinear(features, identity_init=True)]


def _flow(features: int, splines: list[Any]) -> Any:
    """Splines with linear layers before, between and after them."""
    from nflows.distributions import StandardNormal
    from nflows.flows import Flow
    from nflows.transforms import CompositeTransform

    layers = [layer for spline in splines for layer in (*_linear(features), spline)]
    return Flow(CompositeTransform([*layers, *_linear(features)]), StandardNormal([features]))


def _coupled(size: SplineSetting) -> Any:
    from nflows.nn.nets import ResidualNet
    from nflows.transforms import PiecewiseRationalQuadraticCouplingTransform
    from nflows.utils import create_alternating_binary_mask

    def network(inputs: int, outputs: int) -> Any:
        return ResidualNet(inputs, outputs, size.hidden, num_blocks=size.blocks)

    splines = [
        PiecewiseRationalQuadraticCouplingTransform(
            create_alternating_binary_mask(size.features, even=index % 2 == 0),
            network,
            num_bins=size.bins,
            tails="linear",
            tail_bound=sizes.TAIL_BOUND,
            apply_unconditional_transform=True,
        )
        for index in range(size.steps)
    ]
    return _flow(size.features, splines)


def _autoregressive(size: SplineSetting) -> Any:
    from nflows.transforms import MaskedPiecewiseRationalQuadraticAutoregressiveTransform

    splines = [
        MaskedPiecewiseRationalQuadraticAutoregressiveTransform(
            size.features,
            size.hidden,
            num_bins=size.bins,
            num_blocks=size.blocks,
            tails="linear",
            tail_bound=sizes.TAIL_BOUND,
        )
        for _ in range(size.steps)
    ]
    return _flow(size.features, splines)


def _affine(size: DenseSetting) -> Any:
    from nflows.flows import MaskedAutoregressiveFlow

    # One feedforward block follows an input layer: two hidden layers.
    return MaskedAutoregressiveFlow(
        size.features,
        size.hidden,
        num_layers=size.steps,
        num_blocks_per_layer=1,
        use_residual_blocks=False,
        batch_norm_between_layers=True,
    )


def _real_nvp(size: DenseSetting) -> Any:
    from nflows.flows import SimpleRealNVP

    return SimpleRealNVP(
        size.features,
        size.hidden,
        num_layers=size.steps,
        num_blocks_per_layer=1,
        batch_norm_between_layers=True,
    )
